"""Reads of the program's tensors that call none of its tensor classes and modes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from .dispatcher import dispatch_modes
from .tensors import is_functorch_wrapper

unseen_by_functions: Callable[[], AbstractContextManager[Any]] = torch._C.DisableTorchFunction
"""Context in which no ``__torch_function__`` of the program's modes and tensor classes is called."""

USUAL = frozenset((torch.Tensor, torch.nn.Parameter))
"""Classes of tensors whose operations call no code of the program."""

function_modes: Callable[[], int] = torch._C._len_torch_function_stack
"""Return the number of the program's modes that see each torch function called in Python."""


def is_usual(tensor: torch.Tensor) -> bool:
    """Return whether no class and no mode of the program is called for operations on the tensor."""
    return type(tensor) in USUAL and not function_modes() and not dispatch_modes()


def kept_itself(tensor: torch.Tensor, number: int) -> bool:
    """Return whether torch would keep the tensor itself, which is just being saved.

    It does unless the tensor is an output of the saving node. That node was made last, or is a custom
    Function's, which has ``to_save`` until it is done. ``number`` is that of the thread's next node.
    """
    if tensor.is_leaf:
        return True
    if tensor._base is not None:
        return False  # reading `grad_fn` might make torch build a new node (`graph.grad_fn`)
    node: Any = tensor.grad_fn
    return node._sequence_nr() + 1 != number and getattr(node, "to_save", None) is None


_PYTHON = torch._C.DispatchKeySet(torch._C.DispatchKey.Python)


def alias_of(tensor: torch.Tensor, itself: bool) -> torch.Tensor:
    """Return an alias for a save record of a tensor whose operations the program's classes or modes may see.

    Args:
        tensor: The saved tensor.
        itself: Whether torch would keep the tensor itself, so that no class or mode may see an alias made.
    """
    if not itself:
        return tensor.detach()
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or is_functorch_wrapper(tensor):
        return tensor
    with torch._C._ExcludeDispatchKeyGuard(_PYTHON):
        return tensor.detach()
