"""Reads of the program's tensors that call none of its tensor classes and modes."""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount

import torch

from ._behaviour import behaviour
from ._modes import dispatch_modes, unseen_by_functions, unseen_by_modes, without_modes
from .graph import grad_fn
from .tensors import base_of, detached, grad_fn_of, is_functorch_wrapper, is_leaf, version_of

__all__ = [
    "USUAL", "alias_of", "dispatch_modes", "function_modes", "is_traced", "is_usual", "kept_itself",
    "references_of_new", "unseen_by_functions", "unseen_by_modes", "without_modes",
]  # fmt: skip

USUAL = frozenset((torch.Tensor, torch.nn.Parameter))  # classes whose operations call no code of the program

function_modes: Callable[[], int] = torch._C._len_torch_function_stack
"""Return the number of the program's modes that see each torch function called in Python."""
is_traced: Callable[[], bool] = torch._C._is_tracing  # whether ``torch.jit.trace`` writes each operation down


def is_usual(tensor: torch.Tensor) -> bool:
    """Return whether no class and no mode of the program is called for operations on the tensor."""
    return type(tensor) in USUAL and not function_modes() and not dispatch_modes()


_ACCUMULATES = 2**64 - 1  # sequence number of every `AccumulateGrad`


def kept_itself(tensor: torch.Tensor, number: int, named: bool = False) -> bool:
    """Return whether torch would keep the tensor itself, which is just being saved.

    It does unless the tensor is an output of the saving node: the last one, but for those of views that were
    written (``freed_results`` in tests/invisible), or a custom Function's, whose ``to_save`` is not done.

    Args:
        number: The number of the thread's next node.
        named: Whether Python code has the tensor, so that it is no new one.
    """
    if is_leaf(tensor):
        return True
    unwritten = named and not version_of(tensor)  # no view that gets a new node, no in-place result
    node = grad_fn_of(tensor) if unwritten else grad_fn(tensor)
    if node is None:
        return False
    is_last = (made := node._sequence_nr()) + 1 == number
    if is_last and (version_of(tensor) == 0 or base_of(tensor) is None):
        return False
    if not unwritten:
        # The operation of a view's new node has made its base's, too (data_of_a_view_that_was_written.py).
        numbers = (before._sequence_nr() for before, _ in node.next_functions if before is not None)
        if any(made - is_last <= other < _ACCUMULATES for other in numbers):
            return False
    return getattr(node, "to_save", None) is None


def references_of_new() -> int:
    """Return the ``sys.getrefcount`` of a pack hook's argument that no Python code has: a new result.

    Like any object that C makes for a call, with the reference that torch's own owners have together.
    """

    def references_in_hook(new: object) -> int:
        return getrefcount(new)

    return next(map(references_in_hook, iter(object, None))) + behaviour.owners_refer


_PYTHON, _TRACER = map(torch._C.DispatchKeySet, map(torch._C._dispatch_key_parse, ("Python", "Tracer")))


def alias_of(tensor: torch.Tensor, itself: bool = True) -> torch.Tensor:
    """Return an alias of a tensor whose operations the program's classes or modes may see.

    Args:
        itself: Whether torch makes no alias of it now, so that no class or mode may see one made.
    """
    own = type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    if itself and (own or is_functorch_wrapper(tensor)):
        return tensor
    with torch._C._ExcludeDispatchKeyGuard(_TRACER | _PYTHON if itself else _TRACER):
        return detached(tensor)
