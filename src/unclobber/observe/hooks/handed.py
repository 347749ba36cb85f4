"""The program's own tensors in ``ctx.saved_tensors``.

torch makes a new tensor of the unpack hook's result if it needs a gradient: without the class, the
attributes and the hooks of the saved one, and with a ``.grad`` of its own. Without hooks torch returns the
saved tensor itself, unless it is an output of the node that saved it. So does unclobber, if the tensor is
alive, has the same history, and still has the memory that was saved.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ...torch_internals import compat
from ...torch_internals.patches import Patches
from ..native import core
from ..record import same_memory
from .backward import local


def install(patches: Patches) -> None:
    home = compat.entries.CONTEXT
    original = home.saved_tensors
    native = core.loaded().module
    get: Callable[..., Any] = _saved_tensors if native is None else native.saved_tensors
    patches.attribute(home, "saved_tensors", getter=functools.partial(get, original))


def _saved_tensors(getter: Any, ctx: Any) -> Any:
    """Return what torch's getter returns, with the program's own tensors where torch would return those."""
    thread = local.thread
    before, thread.origins = thread.origins, []
    try:
        tensors = getter.__get__(ctx)
        origins = thread.origins
    finally:
        thread.origins = before
    if not origins or len(origins) != sum(tensor is not None for tensor in tensors):
        return tensors  # hooks of the program keep some
    with compat.unseen.unseen_by_functions():
        return tuple(_instead(tensors, origins, ctx))


def _instead(
    tensors: tuple[torch.Tensor | None, ...], origins: list[torch.Tensor | None], ctx: Any
) -> Iterator[torch.Tensor | None]:
    left = iter(origins)
    for tensor in tensors:
        origin = None if tensor is None else next(left)
        yield tensor if tensor is None or origin is None or not _stands_for(origin, tensor, ctx) else origin


def _stands_for(origin: torch.Tensor, tensor: torch.Tensor, ctx: Any) -> bool:
    if origin is tensor:
        return True
    history = compat.graph.grad_fn(tensor)
    return history is not ctx and compat.graph.grad_fn(origin) is history and same_memory(origin, tensor)
