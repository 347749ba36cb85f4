"""A tensor's storage and who holds it, its version counter, its lazy bits."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch


def _one_after_another(tensors: Iterable[torch.Tensor]) -> None:
    for tensor in tensors:
        torch._C._increment_version(tensor)


def _increments_several() -> bool:
    try:
        torch._C._increment_version(())
    except RuntimeError:
        return False
    return True


# torch.autograd.graph.increment_version is public; this is what it calls, without its wrapper. torch 2.4
# takes one tensor at a time: delete the rest with it.
increment_version: Callable[[Iterable[torch.Tensor]], None] = (
    torch._C._increment_version if _increments_several() else _one_after_another
)


def count_write(tensors: Iterable[torch.Tensor]) -> None:
    """Move the counters of what has been written, as torch's own kernels do, which refuse inference tensors.

    Raises:
        RuntimeError: torch's own, for an inference tensor outside of inference mode.
    """
    increment_version(tensors)
    for tensor in tensors:
        if tensor.is_inference() and not torch.is_inference_mode_enabled():
            tensor.as_strided((0,), (1,)).mul_(1)  # writes nothing, and torch refuses it


def storage_key(tensor: torch.Tensor) -> int:
    """Identity of the tensor's StorageImpl: the same for all its views, unique while it lives.

    ``data_ptr`` is no identity: it differs between views and is reused after a free.

    Raises:
        NotImplementedError: there is no storage: sparse layouts, some wrappers, parameters of lazy
            modules.
    """
    key = storage_key_or_none(tensor)
    if key is None:
        raise NotImplementedError("this tensor has no storage")
    return key


def storage_key_or_none(tensor: torch.Tensor) -> int | None:
    """``storage_key``; None for tensors without storage."""
    try:
        key: int = tensor.untyped_storage()._cdata
    except (RuntimeError, ValueError):  # NotImplementedError is a RuntimeError
        return None
    return key


# The address of the StorageImpl, and how many tensors and storages hold it (torch/csrc/Module.cpp; what
# CUDA graph trees count with). 0.2 µs each; no Python object is made.
_storage_address = torch._C._storage_address  # type: ignore[attr-defined]
_storage_holders = torch._C._storage_Use_Count


def storage_address(tensor: torch.Tensor) -> int | None:
    """The address of the tensor's StorageImpl, for ``holders_at``; None for tensors without storage."""
    try:
        return int(_storage_address(tensor))
    except (RuntimeError, ValueError):
        return None


holders_at: Callable[[int], int] = _storage_holders
"""How many hold the storage at an address that something keeps alive: tensors, and its one Python object if
it was ever asked for."""


def holders(tensor: torch.Tensor) -> int:
    """How many tensors hold the storage of ``tensor``, itself included.

    2 where there is no storage, so that 1 says for sure that it is alone.
    """
    try:
        count = int(_storage_holders(_storage_address(tensor)))
        if count == 1:
            return 1
        # The storage's Python object counts as long as it lives: since 2.10 as long as the storage, once
        # somebody has asked for it; before, as long as somebody has it, as we do here.
        storage = tensor.untyped_storage()
        return int(_storage_holders(storage._cdata)) - 1
    except (RuntimeError, ValueError):
        return 2


def key_of_storage(storage: torch.UntypedStorage) -> int:
    """``storage_key`` from the storage itself."""
    return int(storage._cdata)


is_functorch_wrapper: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor
"""Whether a tensor is a ``torch.func`` level wrapper, which has no memory of its own."""


def lent(tensor: torch.Tensor, memory: torch.Tensor) -> Callable[[], None]:
    """Give ``tensor`` the memory of another for a while; it keeps its place in the graph and its counter.

    Gives what puts its own memory back. Unseen by what watches ``tensor.data = …``.
    """
    data: Any = torch._C.TensorBase.data
    own = data.__get__(tensor)
    data.__set__(tensor, memory)
    return lambda: data.__set__(tensor, own)


def counter_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that shares nothing with ``tensor`` but its version counter."""
    with torch.no_grad():
        twin = tensor.detach()
    data: Any = torch._C.TensorBase.data
    data.__set__(twin, torch.empty(0, dtype=tensor.dtype, device=tensor.device))
    return twin


def physical(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory without lazy conjugate and negative bits."""
    if tensor.is_conj():
        tensor = tensor.conj()
    if tensor.is_neg():
        tensor = tensor._neg_view()
    return tensor


def with_bits(tensor: torch.Tensor, conj: bool, neg: bool) -> torch.Tensor:
    """Put the lazy bits back that ``physical`` took away."""
    if neg:
        tensor = tensor._neg_view()
    return tensor.conj() if conj else tensor


def conj_neg_bits(tensor: torch.Tensor) -> tuple[bool, bool]:
    return tensor.is_conj(), tensor.is_neg()


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor is strided memory of its own: no subclass with its own dispatch, not nested."""
    kind = type(tensor)
    if kind is not torch.Tensor and kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return False
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        return False
    return not is_functorch_wrapper(tensor)


def exports() -> tuple[tuple[Any, str], ...]:
    """The functions through which a tensor's memory is handed out by DLPack; all public."""
    import torch.utils.dlpack

    return (torch.Tensor, "__dlpack__"), (torch.utils.dlpack, "to_dlpack"), (torch, "to_dlpack")


use_count: Callable[[torch.Tensor], int] = torch._C.TensorBase._use_count  # type: ignore[attr-defined]
"""How many C++ owners a tensor has; Python names count once together."""


def references_by_torch(tensor: torch.Tensor) -> int:
    """References to a tensor's Python object that are torch's own: one, while C++ owners hold the tensor, too
    (torch/csrc/autograd/python_variable.cpp, since 2.10); none before."""
    return int(_owners_refer() and use_count(tensor) > 1)


def python_owners() -> int:
    """How many of the ``use_count`` of what a view is a view of are Python's for sure: one since 2.10.

    Before, there is none once its owners in C++ have outlived its last name, which can't be told.
    """
    return int(_owners_refer())


@functools.cache
def _owners_refer() -> bool:
    """Whether an owner in C++ refers to the Python object, asked of a tensor that a view of it owns."""
    with torch.inference_mode(False):
        tensor = torch.zeros(1)
        before = sys.getrefcount(tensor)
        view = tensor[:]
        return sys.getrefcount(tensor) > before and view._base is tensor
