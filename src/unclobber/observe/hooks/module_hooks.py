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
        return None if node is None else _hooked.get(node)


_hooked: weakref.WeakKeyDictionary[Any, Hooked] = weakref.WeakKeyDictionary()
"""Calls by the node of the Function that made the views."""


def install(patches: Patches) -> None:
    home = torch.utils.hooks.BackwardHook
    for name, given in (("setup_input_hook", True), ("setup_output_hook", False)):
        patches.stand_in(home, name, _noting, given, patches)


def _noting(original: Callable[..., Any], given: bool, patches: Patches) -> Callable[..., Any]:
    """Return a replacement for one method of ``BackwardHook``, which notes the views that it makes."""

    def setup(self: Any, args: Any) -> Any:
        """Make the views as torch does, and note the call at their node."""
        made = original(self, args)
        if not patches.active:
            return made
        for view in made if isinstance(made, tuple) else (made,):
            with compat.unseen.unseen_by_functions():
                node = compat.graph.grad_fn(view) if isinstance(view, torch.Tensor) else None
            if node is not None and node.name() == compat.entries.MODULE_HOOK + "Backward":
                _hooked[node] = Hooked(weakref.ref(self), of_program(), given)
                break  # one node made them all
        return made

    return setup
