"""The program's modes, and contexts in which none of them is called."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

# Number of active __torch_dispatch__ modes: with one active, kernels see other calling conventions.
dispatch_modes = torch._C._len_torch_dispatch_stack

unseen_by_functions: Callable[[], contextlib.AbstractContextManager[Any]] = torch._C.DisableTorchFunction
"""Context in which no ``__torch_function__`` of the program's modes and tensor classes is called."""


def without_modes() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which no dispatch mode of this thread is called."""
    return _disable_current_modes() if dispatch_modes() else contextlib.nullcontext()


@contextlib.contextmanager
def unseen_by_modes() -> Iterator[None]:
    """Call no mode of the program's at all, for probes: a dispatch mode would change what they come to."""
    with unseen_by_functions(), without_modes():
        yield
