"""What the parts of the interpreter ask of each other: each asks for these, and one of them has it."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod

from ._arguments import Arguments
from ._index import FunctionNode
from ._state import FlowState
from ._values import Value


class Interpreter(ABC):
    """The whole interpreter, as its parts see it; a part that is missing is noticed when one is made."""

    @abstractmethod
    def evaluate(self, node: ast.expr, state: FlowState) -> Value:
        """The value of an expression."""

    @abstractmethod
    def execute(self, body: list[ast.stmt], state: FlowState) -> FlowState:
        """The state behind some statements."""

    @abstractmethod
    def bind(self, target: ast.expr, value: Value, state: FlowState) -> None:
        """Assign."""

    @abstractmethod
    def call(self, node: ast.Call, state: FlowState) -> Value:
        """The value of a call."""

    @abstractmethod
    def call_value(
        self, callee: Value, node: ast.Call, given: Arguments, state: FlowState, name: str
    ) -> Value:
        """The result of calling a value."""

    @abstractmethod
    def inline(
        self,
        function: FunctionNode,
        state: FlowState,
        arguments: list[Value],
        keywords: dict[str, Value],
        owner: Value | None = None,
    ) -> Value:
        """The result of a call of a function of the file."""

    @abstractmethod
    def attribute(self, value: Value, name: str, state: FlowState, node: ast.expr) -> Value:
        """The value of an attribute."""

    @abstractmethod
    def elements(self, value: Value, state: FlowState) -> Value:
        """What a loop over the value is given."""

    @abstractmethod
    def class_attributes(self, name: str) -> dict[str, Value]:
        """What ``__init__`` sets, of an object of which only the class is known."""
