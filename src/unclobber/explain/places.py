"""Locations of expressions, and their values in the live frames of a failure."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch

from ..source import UNKNOWN, ParsedSource, value_of
from ._definitions import Definition, Scope, is_local, reaching
from ._live import LiveFrame
from .operands import bind_code

COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


@dataclass(frozen=True)
class Place:
    """An expression's location among the frames of one failure, which may show its value."""

    live_frames: Sequence[LiveFrame]  # the frames of the failed call, innermost first
    code: CodeType
    source: ParsedSource
    at: ast.stmt  # the statement that reads the expression
    depth: int | None = None  # index of its frame among the live frames; None if the call is over
    node: ast.expr | ast.stmt | None = field(default=None, compare=False)
    """The expression or statement that this frame runs; None if the call is over."""
    called: tuple[ast.Call, Place] | None = None
    """The call that ran this code and is over, with its location; None if it wasn't followed from a call."""
    inner: frozenset[str] = frozenset()  # variables of the comprehensions around the expression

    @staticmethod
    def of(live_frames: Sequence[LiveFrame], depth: int | None) -> Place | None:
        """Return the place of the expression that a live frame runs; None if it isn't certain."""
        located = None if depth is None else live_frames[depth].at.located()
        if depth is None or located is None:
            return None
        code, statement, inner = live_frames[depth].code, located.statement, located.inlined_names()
        return Place(live_frames, code, located.source, statement, depth, located.node, inner=inner)

    @property
    def scope(self) -> Scope | None:
        return self.source.scope(self.code)

    def definition(self, name: str) -> Definition | None:
        return None if self.scope is None else reaching(name, self.scope, self.at)

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression here; ``UNKNOWN`` if the call is over, or it uses a
        comprehension's variable."""
        names = (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
        if self.depth is None or not self.inner.isdisjoint(names):
            return UNKNOWN
        return value_of(node, self.live_frames[self.depth].frame)

    def is_tensor(self, node: ast.expr) -> bool:
        """Return whether the expression is known to be a tensor, by its value or by its argument's."""
        if self.depth is not None:
            return isinstance(self.value(node), torch.Tensor)
        if self.called is None or not isinstance(node, ast.Name) or node.id in self.inner:
            return False
        if self.definition(node.id) != Definition("parameter"):
            return False
        call, caller = self.called
        # An element of a list is no view: tests/programs/UC204/nograd_decorated_given_a_list.py.
        passed = (bind_code(call, self.code) or {}).get(node.id)
        if passed is None or not caller.is_tensor(passed):
            return False
        # The caller's name may hold another value by now:
        # tests/programs/UC204/nograd_decorated_with_another_argument_by_then.py.
        return not isinstance(passed, ast.Name) or caller.still_is(passed.id)

    def still_is(self, name: str) -> bool:  # no other definition has reached its frame since
        now = Place.of(self.live_frames, self.depth)
        if self.scope is None or now is None or not is_local(name, self.scope):
            return True
        return self.definition(name) == now.definition(name)

    def named(self, node: ast.expr) -> Any:
        """Return the expression's value, also of a global of a function that returned; else ``UNKNOWN``."""
        value = self.value(node)
        if value is not UNKNOWN or self.depth is not None or not isinstance(node, ast.Name):
            return value
        # The function has returned, but its module's globals are still there.
        for live_frame in self.live_frames:
            if live_frame.frame.f_globals.get("__file__") == self.code.co_filename:
                return live_frame.frame.f_globals.get(node.id, UNKNOWN)
        return UNKNOWN
