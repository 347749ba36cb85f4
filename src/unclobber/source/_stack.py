"""What a stack is: the one type of it, and its innermost instruction as a key."""

from __future__ import annotations

from typing import Any

Stack = tuple[Any, ...]
"""Alternating code objects and instruction offsets, innermost frame first."""


def spot(stack: Stack) -> tuple[Any, ...]:
    """The innermost instruction as a key. Equal code in two files makes equal code objects."""
    return (stack[0].co_filename, *stack[:2]) if stack else ()
