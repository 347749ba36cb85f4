"""Our own reads of a program's tensors, of which none of its classes and modes is told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from ._dispatcher import dispatch_modes
from ._graph import next_sequence_number
from ._tensors import is_functorch_wrapper

unseen_by_functions: Callable[[], AbstractContextManager[Any]] = torch._C.DisableTorchFunction
"""Look at the program's tensors unseen by the ``__torch_function__`` of its modes and of their classes."""

_USUAL = frozenset((torch.Tensor, torch.nn.Parameter))

function_modes: Callable[[], int] = torch._C._len_torch_function_stack
"""How many modes of the program see each function of torch's that is called in Python."""


def is_usual(tensor: torch.Tensor) -> bool:
    """Whether no class and no mode of the program's is told of what is done with the tensor."""
    return type(tensor) in _USUAL and not function_modes() and not dispatch_modes()


def kept_itself(tensor: torch.Tensor) -> bool:
    """Whether torch would keep the tensor itself, which is just being saved: it is no output of the node that
    saves it. That was made last, or is a custom Function's, which has ``to_save`` until it is done."""
    if tensor.is_leaf:
        return True
    if tensor._base is not None:
        return False  # its node may have to be made anew
    node: Any = tensor.grad_fn
    return node._sequence_nr() + 1 != next_sequence_number() and getattr(node, "to_save", None) is None


_PYTHON = torch._C.DispatchKeySet(torch._C.DispatchKey.Python)


def alias_of(tensor: torch.Tensor, itself: bool) -> torch.Tensor:
    """What a save keeps of a tensor of which a class or mode of the program's may be told: an alias of it.

    Args:
        tensor: What is saved.
        itself: Whether torch would keep it, so that nobody is told of an alias.
    """
    if not itself:
        return tensor.detach()
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or is_functorch_wrapper(tensor):
        return tensor
    with torch._C._ExcludeDispatchKeyGuard(_PYTHON):
        return tensor.detach()
