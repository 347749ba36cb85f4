"""Tensors that a module was given, or returned, through its full backward hooks.

torch hands such a module views made by a Function of its own, and hands on a view of what it returned. A
program that writes to one in place is refused with a sentence about a custom Function, which it doesn't
have.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

import torch

from ...source import Stack, code_of, of_program
from ...torch_internals import compat
from ...torch_internals.patches import Patches


class Hooked(NamedTuple):
    """Trace of one call of a module with full backward hooks; it keeps no tensor alive."""

    by: weakref.ref[Any]  # torch's object for the call
    stack: Stack
    given: bool  # whether the module was given the tensor; else it returned the tensor

    def hook(self) -> CodeType | None:  # the code of the first one
        hooks = [] if (by := self.by()) is None else [*by.user_hooks, *by.user_pre_hooks]
        return code_of(hooks[0]) if hooks else None

    @staticmethod
    def of(view: torch.Tensor) -> Hooked | None:  # itself, or as a base some steps away
        node: Any = compat.graph.grad_fn(view)
        while node is not None and not isinstance(node, torch.autograd.function.BackwardCFunction):
            before = node.next_functions
            node = before[0][0] if len(before) == 1 else None
        return None if node is None else _hooked.get(weakref.ref(node))


_hooked: dict[weakref.ref[Any], Hooked] = {}
"""Calls by the node of the Function that made the views, which takes them along."""


def install(patches: Patches) -> None:
    patches.stand_in(*compat.entries.MODULE_HOOK_VIEWS, _noting, patches)


def _noting(original: Callable[..., Any], patches: Patches) -> Callable[..., Any]:
    """Return a replacement for the method of ``BackwardHook`` that makes views of tensors."""

    def apply_on_tensors(self: Any, use_node: Callable[[Any], None], args: Any) -> Any:
        """Make the views as torch does, and note the call at their node."""

        def use_noted(node: Any) -> None:
            given = self.n_inputs < 0  # torch counts the inputs as soon as it has made views of them
            _hooked[weakref.ref(node, _hooked.pop)] = Hooked(weakref.ref(self), of_program(), given)
            use_node(node)

        return original(self, use_noted if patches.active else use_node, args)

    return apply_on_tensors
