"""A tensor's storage and its number of holders, its version counter, its lazy bits, its stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch

from ._behaviour import behaviour
from ._modes import unseen_by_modes

# torch.autograd.graph.increment_version is public; this is what it calls, without its wrapper.
increment_version: Callable[[Iterable[torch.Tensor]], None] = torch._C._increment_version

HAND_OUT = frozenset(
    {"numpy", "__array__", "data_ptr", "__dlpack__", "untyped_storage", "storage", "_typed_storage",
     "__cuda_array_interface__", "share_memory_", "pin_memory"}
)  # fmt: skip
"""Methods of a tensor whose result gives access to the tensor's own memory."""

# Reads past the tensor's class, which may define any of these names itself (a_class_of_its_own.py).
detached: Callable[[torch.Tensor], torch.Tensor] = torch._C.TensorBase.detach
storage_of: Callable[[torch.Tensor], torch.UntypedStorage] = torch._C.TensorBase.untyped_storage
_CLASS, _READ = torch._C.TensorBase, ("_base", "_version", "requires_grad", "is_leaf", "grad_fn")
base_of, version_of, needs_grad, is_leaf, grad_fn_of = (getattr(_CLASS, name).__get__ for name in _READ)


def count_write(tensors: Iterable[torch.Tensor]) -> None:
    """Bump the counters of written tensors as torch's own kernels do, which refuse inference tensors.

    Raises:
        RuntimeError: torch's own, for an inference tensor outside of inference mode.
    """
    increment_version(tensors)
    for tensor in tensors:
        if tensor.is_inference() and not torch.is_inference_mode_enabled():
            tensor.as_strided((0,), (1,)).mul_(1)  # writes nothing, and torch refuses it


def storage_key(tensor: torch.Tensor) -> int:
    """Return the identity of the tensor's StorageImpl: equal for all its views, unique while it lives.

    ``data_ptr`` is no identity, because it differs between views and is reused after a free.
    It raises NotImplementedError without a storage: sparse layouts, some wrappers, lazy parameters.
    """
    key = storage_key_or_none(tensor)
    if key is None:
        raise NotImplementedError("this tensor has no storage")
    return key


# torch/csrc/Module.cpp, for CUDA graph trees. 0.2 µs; no Python object of the storage is made, with which
# torch would no more add up a gradient in place (test_gradients_are_added_up_in_place).
_storage_address = torch._C._storage_address  # type: ignore[attr-defined]
outside_device = torch._C._get_privateuse1_backend_name  # a backend outside of torch, such as `npu`


def storage_key_or_none(tensor: torch.Tensor) -> int | None:
    try:
        return None if torch.nn.parameter.is_lazy(tensor) else int(_storage_address(tensor))
    except (RuntimeError, ValueError):
        return None


class NativeStorages:
    module: ClassVar[Any] = None  # the native core if it runs, which needs no Python object of a storage


def is_resizable(tensor: torch.Tensor) -> bool:  # which is whether the memory is torch's own
    native = NativeStorages.module
    return bool(storage_of(tensor).resizable() if native is None else native.is_resizable(tensor))


def is_flat(tensor: torch.Tensor | None) -> bool:
    """Return whether this is a ``FlatParameter``, of which FSDP1 makes parameters views (since 1.12)."""
    return getattr(tensor, "_is_flat_param", False)


def share_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    key = storage_key_or_none(a)
    return key is not None and key == storage_key_or_none(b)


holders_at: Callable[[int], int] = torch._C._storage_Use_Count
"""Return the number of a live storage's holders: its tensors, and its Python object if it was made."""


def holders(tensor: torch.Tensor) -> int:
    """Return how many tensors hold the storage of ``tensor``, itself included.

    2 if there is no storage, so that 1 always means that ``tensor`` is alone.
    """
    try:
        count = int(holders_at(_storage_address(tensor)))
        if count == 1:
            return 1
        # The storage's Python object counts while it lives. Since 2.10 that is as long as the storage, once
        # it was made; before, as long as a name refers to it, as `storage` does here.
        storage = storage_of(tensor)
        return int(holders_at(storage._cdata)) - 1
    except (RuntimeError, ValueError):
        return 2


def key_of_storage(storage: torch.UntypedStorage) -> int:
    return int(storage._cdata)


def has_batch(tensor: torch.Tensor) -> bool:
    """Return whether ``vmap`` gave a tensor a batch, at any level (torch/_C/_functorch.pyi, since 2.0)."""
    while torch._C._functorch.is_gradtrackingtensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return torch._C._functorch.is_batchedtensor(tensor)


is_functorch_wrapper: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor
"""Return whether a tensor is a ``torch.func`` level wrapper, which has no memory of its own."""


def lent(tensor: torch.Tensor, memory: torch.Tensor) -> Callable[[], None]:
    """Give ``tensor`` other memory; its node and counter stay. Return a function that restores its own."""
    data: Any = torch._C.TensorBase.data  # the C attribute, past the wrapper that observes `tensor.data = …`
    with unseen_by_modes():  # to which reading it is an `aten.detach`
        own = data.__get__(tensor)
        data.__set__(tensor, memory)
    return lambda: data.__set__(tensor, own)


def counter_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor that shares nothing with ``tensor`` except its version counter."""
    with torch.no_grad(), unseen_by_modes():
        twin, nothing = detached(tensor), torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    lent(twin, nothing)
    return twin


def physical(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor's memory without lazy conjugate and negative bits."""
    return with_bits(tensor, tensor.is_conj(), tensor.is_neg())


def with_bits(tensor: torch.Tensor, conj: bool, neg: bool) -> torch.Tensor:
    if neg:
        tensor = tensor._neg_view()
    return tensor.conj() if conj else tensor


def conj_neg_bits(tensor: torch.Tensor) -> tuple[bool, bool]:
    return tensor.is_conj(), tensor.is_neg()


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether the tensor is strided memory: no subclass with its own dispatch, not nested."""
    kind = type(tensor)
    if kind is not torch.Tensor and kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return False
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        return False
    return not (tensor._has_symbolic_sizes_strides or is_functorch_wrapper(tensor) or tensor._is_zerotensor())


use_count: Callable[[torch.Tensor], int] = torch._C.TensorBase._use_count  # type: ignore[attr-defined]
"""Return the number of a tensor's C++ owners; all Python names together count once."""


def references_by_torch(tensor: torch.Tensor) -> int:
    """Return the number of torch's own references to a tensor's Python object.

    One while C++ owners hold the tensor, too (torch/csrc/autograd/python_variable.cpp, since 2.10); none
    before.
    """
    return int(behaviour.owners_refer and use_count(tensor) > 1)


def current_stream(tensor: torch.Tensor) -> Any:
    """Return the current stream of the tensor's device: a queue of work. None if it has none (the CPU)."""
    if tensor.is_cpu:
        return None
    current = getattr(getattr(torch, tensor.device.type, None), "current_stream", None)
    return None if current is None else current(tensor.device)


def capturing(tensor: torch.Tensor) -> bool:
    """Return whether work on ``tensor`` is captured into a CUDA graph now, so that no value can be read."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()
