"""Is a stale value really read? A dispatch mode that knows, for the rare case that there is one.

A tensor that changed since the forward pass is only at fault where its changed elements are read:
a scratch buffer that is filled before it is used, ``x.shape``, or the half of a cache that nobody
wrote to are no error. The mode keeps, for each stale storage, a map of the elements that differ;
an operation that overwrites some of them clears those, one that reads any that are left is told.
Slow, and only ever entered when something has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..ledger._selection import select
from . import _torch_compat as compat
from . import _writes

_OVERWRITES = frozenset(
    {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_",
     "cauchy_", "log_normal_", "geometric_", "set_", "resize_"}
)  # fmt: skip
"""In-place operations that don't read what they write."""

_INDEXED = frozenset(
    {"index_put_", "index_fill_", "index_copy_", "masked_fill_", "masked_scatter_", "scatter_"}
)  # fmt: skip
"""The same for the elements that their index selects."""

_LIKE = frozenset(
    {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
     "randint_like", "new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided",
     "is_same_size", "sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "dim", "numel"}
)  # fmt: skip
"""Operations that look at a tensor's shape alone."""


class StaleTensor:
    """A tensor whose values aren't what they were.

    Args:
        tensor: As it is now.
        before: As it was, same shape.
        told: Called once, at the first read of an element that differs.
    """

    def __init__(self, tensor: torch.Tensor, before: torch.Tensor, told: Callable[[], None]) -> None:
        self.tensor = tensor
        self.key = compat.storage_key(tensor)
        self._told: Callable[[], None] | None = told
        with torch.no_grad(), compat.unseen_by_torch():
            now, then = compat.physical(tensor), compat.physical(before)
            differs = _differs(now, then)
            elements = tensor.untyped_storage().nbytes() // tensor.itemsize
            self._map = torch.zeros(elements, dtype=torch.bool, device=tensor.device)
            self._view(tensor).copy_(differs)

    def _view(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._map.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def wrote(
        self, tensor: torch.Tensor, operation: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """An operation gives ``tensor``, which shares this memory, values of its own."""
        if tensor.itemsize != self.tensor.itemsize:
            return
        if operation in _OVERWRITES:
            self._view(tensor).fill_(False)
        elif operation in _INDEXED:
            selection = select(operation, args, kwargs)
            if selection is not None:
                selection.put(self._view(tensor), torch.tensor(False))

    def read(self, tensor: torch.Tensor) -> None:
        """An operation reads ``tensor``, which shares this memory."""
        if self._told is None:
            return
        if tensor.itemsize == self.tensor.itemsize and not bool(self._view(tensor).any()):
            return
        told, self._told = self._told, None
        told()


def _differs(now: torch.Tensor, then: torch.Tensor) -> torch.Tensor:
    """Element by element; a NaN equals a NaN."""
    differs = now != then
    if now.is_floating_point() or now.is_complex():
        differs &= ~(now.isnan() & then.isnan())
    return differs


class StaleReads(compat.TorchDispatchMode):
    """Active while a user's code runs that may read one of the ``stale`` tensors."""

    def __init__(self, stale: list[StaleTensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._by_key: dict[int, list[StaleTensor]] = {}
        for one in stale:
            self._by_key.setdefault(one.key, []).append(one)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        touched = list(self._touched(args)) + list(self._touched(tuple(kwargs.values())))
        if not touched:
            return func(*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        written = _writes.written_tensors(func, args, kwargs) + _writes.undeclared(name, args)
        if name not in _LIKE and not _is_view(func):
            with torch.no_grad(), compat.unseen_by_torch():
                for stale, tensor in touched:
                    if not any(tensor is one for one in written):
                        stale.read(tensor)
        result = func(*args, **kwargs)
        out = {id(kwargs[argument.name]) for argument in func._schema.arguments
               if argument.is_out and argument.name in kwargs}  # fmt: skip
        with torch.no_grad(), compat.unseen_by_torch():
            for stale, tensor in touched:
                if any(tensor is one for one in written):
                    stale.wrote(tensor, "copy_" if id(tensor) in out else name, args, kwargs)
        return result

    def _touched(self, values: Any) -> Iterator[tuple[StaleTensor, torch.Tensor]]:
        for value in values:
            if isinstance(value, torch.Tensor):
                if compat.is_plain(value):
                    for stale in self._by_key.get(compat.storage_key(value), ()):
                        yield stale, value
            elif isinstance(value, (list, tuple)):
                yield from self._touched(value)


def _is_view(func: Any) -> bool:
    schema = func._schema
    return not schema.is_mutable and any(argument.alias_info is not None for argument in schema.arguments)
