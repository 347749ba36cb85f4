"""A tensor's content, compared bit for bit or as a hash, to notice changes without an observed write.

``torch.hash_tensor`` is no alternative. It is the exclusive or of all elements: unchanged by a shuffle,
and zero for any even number of equal elements (torch_facts). On the CPU the hash is
Python's own 64-bit SipHash of the raw bytes, about 3 GB/s; on other devices a sum of scrambled
words that depends on their positions, so that only one number is copied to the CPU.
"""

from __future__ import annotations

import ctypes

import torch

from ...torch_internals import compat
from ._region import region_of

_CHUNK = 1 << 18  # bytes hashed at a time: small enough to stay in the cache between copying and hashing


def digest(tensor: torch.Tensor) -> int | None:
    """Return a hash of every bit of a strided tensor, any shape and dtype, and of the bits' order.

    Returns:
        None if there is no content to read: meta, sparse, a wrapper subclass, a storage that was
        shrunk behind the tensor, or a CUDA graph that is being captured.
    """
    if not compat.tensors.is_plain(tensor) or tensor.is_meta or compat.tensors.capturing(tensor):
        return None
    if tensor.is_cpu and tensor.is_contiguous():
        return _of_bytes(tensor) if in_storage(tensor) else None  # no torch operation runs: cheap and unseen
    with torch.no_grad(), compat.dispatcher.unseen_by_torch():
        tensor = compat.tensors.physical(tensor)
        if not in_storage(tensor):
            return None
        if not tensor.is_contiguous():
            tensor = tensor.contiguous()
        if not compat.tensors.is_plain(tensor):  # under `torch.func.grad` a copy is its wrapper
            return None
        return _of_bytes(tensor) if tensor.device.type == "cpu" else of_words(tensor)


def plain_key_or_none(tensor: torch.Tensor) -> int | None:
    return compat.tensors.storage_key_or_none(tensor) if compat.tensors.is_plain(tensor) else None


def in_storage(tensor: torch.Tensor) -> bool:
    region = region_of(tensor)
    return region is None or region.hi <= tensor.untyped_storage().nbytes()  # not after `storage.resize_(0)`


def _of_bytes(tensor: torch.Tensor) -> int:
    """Return a hash of the bytes of a contiguous CPU tensor, made of Python's for each chunk."""
    start, nbytes = tensor.data_ptr(), tensor.numel() * tensor.itemsize
    return hash(
        tuple(
            hash(ctypes.string_at(start + offset, min(_CHUNK, nbytes - offset)))
            for offset in range(0, nbytes, _CHUNK)
        )
    )


def of_words(tensor: torch.Tensor) -> int:
    """Return a content hash of a contiguous tensor, computed by torch operations on its own device."""
    raw = tensor.reshape(-1).view(torch.uint8)
    missing = -raw.numel() % 8
    if missing:
        raw = torch.cat((raw, raw.new_zeros(missing)))
    if raw.storage_offset() % 8:  # `view(torch.int64)` refuses an offset that is no multiple of 8 bytes
        raw = raw.clone()
    words = raw.view(torch.int64)
    # Positions take part, because a plain sum is the same after a shuffle.
    place = torch.arange(1, words.numel() + 1, dtype=torch.int64, device=words.device)
    # Multiplication carries upwards only: fold the high bits down between the two rounds.
    mixed = (words ^ place * -7046029254386353131) * -4658895280553007687
    mixed = (mixed ^ (mixed >> 29)) * -7723592293110705685
    return int((mixed ^ (mixed >> 32)).sum())


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:  # NaNs included
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
        return False
    # Bytes, not values: `torch.equal` says that NaN differs from NaN and that -0.0 equals 0.0
    # (test_nan_and_signed_zero_come_back).
    return a.numel() == 0 or a.is_meta or torch.equal(_bytes_of(a), _bytes_of(b))


def differing(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:  # a NaN equals a NaN
    differs = a != b
    if a.is_floating_point() or a.is_complex():
        differs &= ~(a.isnan() & b.isnan())
    return differs


def each_once(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view that holds each element once: expanded dimensions are narrowed to 1.

    Example:
        >>> each_once(torch.zeros(3, 1).expand(3, 4)).shape
        torch.Size([3, 1])
    """
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.size(dim) > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    flat = compat.tensors.physical(tensor).contiguous().view(-1)
    if flat.numel() == 1:
        flat = flat.as_strided((1,), (1,))  # one element counts as contiguous whatever its stride
    return flat.view(torch.uint8)
