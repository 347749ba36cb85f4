"""The type of a stack, and a hashable key for its innermost instruction."""

from __future__ import annotations

from typing import Any

Stack = tuple[Any, ...]
"""Alternating code objects and instruction offsets, innermost frame first."""


def frame_key(stack: Stack) -> tuple[Any, ...]:
    """Return a hashable key for the innermost instruction; empty if the stack is empty.

    The file name is part of the key, because equal code in two files makes equal code objects.
    """
    return (stack[0].co_filename, *stack[:2]) if stack else ()
