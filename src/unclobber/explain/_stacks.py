"""The program's places on a stack: as keys that are compared, and as an expression."""

from __future__ import annotations

from types import CodeType
from typing import Any

from ..source import Instruction, Located, Stack, is_plumbing, user_frame, user_stack


def frame_key(stack: Stack) -> tuple[Any, ...]:
    return Instruction(*stack[:2]).key if stack else ()


def user_place(stack: Stack) -> tuple[Any, ...] | None:
    place = user_frame(stack)
    return None if place is None else place.key


def user_expression(stack: Stack) -> tuple[Located, list[CodeType]] | None:
    """Return the innermost expression of the user's own code on a stack, and the library code below it,
    outermost first, without plumbing; None if the expression isn't certain."""
    place = user_frame(stack)
    located = None if place is None else place.located()
    if located is None:
        return None
    # The library's own frames say which of its functions ran the operation: `F.relu` for `self.act(x)`.
    below = stack[: len(stack) - len(user_stack(stack)) : 2]
    return located, [code for code in reversed(below) if not is_plumbing(code)]
