"""``freeze``: from now on, writing to a tensor raises at the line that writes.

The write kernels of ``hooks`` notify a listener here before every write. It refuses the write if it touches
an element of a frozen tensor. The test is exact: a write to other elements of
the same storage is allowed. It works with and without an active ``watch``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import torch

from ..explain import of_frozen
from ..model import UnclobberError
from ..observe.hooks import Listener
from ..observe.hooks.installation import installation
from ..observe.record import METADATA_ONLY, SavedTensor, region_of
from ..report import error_of
from ..source import Stack, of_program
from ..torch_internals import compat

_STORAGE_SWAPS = frozenset(("set_", "set_data"))  # operations that give the tensor itself other memory


class Frozen:
    """The handle of frozen tensors: ``remove()`` lets them be written again; a context manager, too.

    The tensors stay alive until then.

    Example:
        >>> w = torch.zeros(3)
        >>> with unclobber.freeze(w) as handle:
        ...     total = w.sum()
        >>> w += 1  # it has ended
    """

    def __init__(self, tensors: Iterable[torch.Tensor], stack: Stack) -> None:
        self._entries = [_Entry(tensor, stack) for tensor in tensors]
        for entry in self._entries:
            _keeper.add(entry)

    def remove(self) -> None:
        """Allow writes again. Calling it twice does no harm."""
        # Emptied, so that a second call finds none: test_remove_ends_it_and_may_be_repeated.
        while self._entries:
            _keeper.remove(self._entries.pop())

    def __enter__(self) -> Frozen:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class _Entry:
    """A frozen tensor, with its region and the stack of the ``freeze`` call."""

    __slots__ = ("key", "region", "stack", "tensor")

    def __init__(self, tensor: torch.Tensor, stack: Stack) -> None:
        """Check that ``tensor`` is one, with strided memory of its own; else TypeError or UnclobberError."""
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"freeze takes a tensor, not {type(tensor).__name__}")
        if not compat.tensors.is_plain(tensor):
            raise UnclobberError(
                "only strided tensors with memory of their own can be frozen; this one is "
                f"{tensor.layout} {type(tensor).__name__}"
            )
        self.key = compat.tensors.storage_key(tensor)
        self.region = region_of(tensor)
        self.tensor = tensor  # keeps the memory alive, because its key could pass to another storage
        self.stack = stack


class _Keeper(Listener):
    """Listener for all frozen tensors of the process.

    It is a client of the installation as a ledger is, so that kernels are registered and an optimizer's
    writes are observed.
    """

    def __init__(self) -> None:
        self.watched: dict[int, tuple[_Entry, ...]] = {}
        self._lock = threading.RLock()

    def add(self, entry: _Entry) -> None:
        with self._lock:
            if not self.watched:
                # Without a session no thread observes writes: test_a_session_that_ends_leaves_the_freeze.
                installation.acquire(self, always=True)
            self.watched[entry.key] = (*self.watched.get(entry.key, ()), entry)

    def remove(self, entry: _Entry) -> None:
        """Stop refusing writes to the entry's tensor, unless another entry freezes it as well."""
        with self._lock:
            left = tuple(other for other in self.watched[entry.key] if other is not entry)
            if left:  # test_two_freezes_of_one_tensor_end_one_by_one
                self.watched[entry.key] = left
                return
            del self.watched[entry.key]
            if not self.watched:
                installation.release(self, always=True)

    def before_write(
        self, tensor: torch.Tensor, operation: str, bumps: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Refuse a write to an element of a frozen tensor, and other memory for the frozen tensor."""
        entries = self.watched.get(compat.tensors.storage_key_or_none(tensor) or 0, ())
        if not entries:
            return
        region = None if operation in METADATA_ONLY else region_of(tensor)
        for entry in entries:
            storage_swapped = operation in _STORAGE_SWAPS and tensor is entry.tensor
            if storage_swapped or (
                region is not None and entry.region is not None and entry.region.overlaps(region)
            ):
                raise error_of(of_frozen(entry.tensor, entry.stack, operation))

    def before_storage_swap(self, tensor: torch.Tensor, new: torch.Tensor) -> None:
        self.before_write(tensor, "set_data", False, (tensor,), {})

    def unaffected(self, *_: Any) -> None:
        """Do nothing. ``detach_()`` leaves values as they are; what a CUDA graph's replay, or memory that was
        handed out or exported, is written with is unknown, so it can overwrite a frozen tensor unnoticed."""

    after_detach = before_replay = before_hand_out = before_export = unaffected

    def before_shrink(self, storage: torch.UntypedStorage, size: int) -> None:
        for entry in self.watched.get(compat.tensors.key_of_storage(storage), ()):
            if entry.region is not None and entry.region.hi > size:
                raise error_of(of_frozen(entry.tensor, entry.stack, "resize_"))

    def anything_alive(self) -> bool:
        return bool(self.watched)  # an optimizer's writes must be observed then

    def saves(self, *, queued: bool = True) -> Iterable[SavedTensor]:
        # Backward is observed all the same, because `always` is:
        # test_backward_may_not_add_to_a_frozen_gradient.
        return ()


_keeper = _Keeper()


def freeze(tensor: torch.Tensor) -> Frozen:
    """From now on, any write to ``tensor`` or to memory that it shares raises at the writing line.

    The elements count, not the storage: ``x[1] = 0`` is allowed while only ``x[0]`` is frozen.
    Writes that reach memory past torch's dispatcher (NumPy, a raw pointer) are not seen, nor those
    of threads that were running already. The tensor stays alive until ``remove()``.

    Args:
        tensor: A strided tensor, any shape; a view freezes its own elements.
    Returns:
        A handle. Its ``remove()`` ends it, and so does leaving it as a context manager.
    Raises:
        TypeError: not a tensor.
        UnclobberError: a tensor without strided memory of its own (sparse, nested).
    Example:
        >>> w = torch.zeros(3)
        >>> handle = unclobber.freeze(w)
        >>> w += 1
        Traceback (most recent call last):
        ...
        unclobber.InplaceError: `w` was written to while it is frozen ...
        >>> handle.remove()
        >>> w += 1
    """
    return Frozen([tensor], of_program())


def frozen(tensors: Iterable[torch.Tensor]) -> Frozen:
    """:func:`freeze` for several tensors, as for ``with frozen(model.parameters()):``.

    Args:
        tensors: Strided tensors of any shapes.
    Returns:
        One handle for all of them; ``remove()``, or leaving it as a context manager, ends it.
    Raises:
        TypeError: one is not a tensor; none is frozen then.
        UnclobberError: one has no strided memory of its own (sparse, nested); none is frozen then.
    Example:
        >>> layer = torch.nn.Linear(2, 2)
        >>> with unclobber.frozen(layer.parameters()):
        ...     layer.weight.data.zero_()
        Traceback (most recent call last):
        ...
        unclobber.InplaceError: `layer.weight.data` was written to while it is frozen ...
    """
    return Frozen(tensors, of_program())
