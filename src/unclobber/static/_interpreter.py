"""The interface between the interpreter's parts: each part calls these methods, and exactly one part
implements each."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod

from ._arguments import Arguments
from ._index import FunctionNode
from ._state import FlowState
from ._values import Value


class Interpreter(ABC):
    """The whole interpreter, as its parts see it. A missing part makes its construction fail."""

    @abstractmethod
    def evaluate(self, node: ast.expr, state: FlowState) -> Value:
        """Return the value of an expression."""

    @abstractmethod
    def execute(self, body: list[ast.stmt], state: FlowState) -> FlowState:
        """Return the state after some statements."""

    @abstractmethod
    def bind(self, target: ast.expr, value: Value, state: FlowState) -> None:
        """Assign a value to a target."""

    @abstractmethod
    def call(self, node: ast.Call, state: FlowState) -> Value:
        """Return the value of a call."""

    @abstractmethod
    def call_value(
        self, callee: Value, node: ast.Call, given: Arguments, state: FlowState, name: str
    ) -> Value:
        """Return the result of calling a value."""

    @abstractmethod
    def inline(
        self,
        function: FunctionNode,
        state: FlowState,
        arguments: list[Value],
        keywords: dict[str, Value],
        owner: Value | None = None,
    ) -> Value:
        """Return the result of a call of a function of the file."""

    @abstractmethod
    def attribute(self, value: Value, name: str, state: FlowState, node: ast.expr) -> Value:
        """Return the value of an attribute."""

    @abstractmethod
    def elements(self, value: Value, state: FlowState) -> Value:
        """Return the value of a loop's variable over ``value``."""

    @abstractmethod
    def class_attributes(self, name: str) -> dict[str, Value]:
        """Return the attributes that ``__init__`` sets on an object of which only the class is known."""
