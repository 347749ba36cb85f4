"""Hooks that the program registers for one saved tensor, ``grad_fn._raw_saved_self.register_hooks(…)``.

torch has one pair for each, which is the session's, and refuses another. So the program's pair is kept in
the save record: its pack hook is called at once, and its unpack hook when backward unpacks the save.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ...torch_internals import compat
from ...torch_internals.patches import Patches
from ..record import RegisteredHooks, SavedTensor, UncheckedSave, leave_to
from . import saves

_failed: weakref.WeakSet[Any] = weakref.WeakSet()
"""Raw saved tensors whose pack hook may have raised: torch reads NULL to show what that hook returned."""


def install(patches: Patches) -> None:
    if compat.behaviour.shows_packed:
        home = compat.entries.RAW_SAVED
        patches.stand_in(home, "register_hooks", _register_hooks)
        patches.attribute(home, "data", getter=_data)


def _register_hooks(original: Callable[..., None]) -> Callable[..., None]:
    """Return a replacement for ``register_hooks``, which keeps the program's pair in the save record."""

    def register_hooks(raw: Any, *pair: Any) -> None:
        """Keep the pair, or let torch refuse it as it would without a session."""
        saved = None if raw in _failed else compat.kept.packed(raw)
        hooks = saves.innermost()
        if (
            not isinstance(saved, SavedTensor)
            or type(saved.entry) is RegisteredHooks
            or len(pair) != 2
            or not all(map(callable, pair))
            or (hooks is None and saved.entry is not None)
        ):
            if not isinstance(saved, SavedTensor):
                _failed.add(raw)
            original(raw, *pair)  # torch refuses, or keeps them itself
            _failed.discard(raw)
            return
        saved.__class__ = UncheckedSave  # hooks take the place of torch's check
        # torch has the pair, too, if its pack hook raises or writes
        entry = RegisteredHooks(None, _refuse if compat.behaviour.refuses_unpacked else pair[1])
        try:
            _pack(saved, entry, pair, hooks)
        finally:
            with compat.unseen.unseen_by_functions():
                leave_to(saved, entry)

    return register_hooks


def _pack(
    saved: SavedTensor, entry: RegisteredHooks, pair: tuple[Any, ...], hooks: saves.SavedTensorHooks | None
) -> None:
    """Call the pack hook of ``pair`` as torch would, and let ``entry`` keep its result for the other."""
    tensor = saved.alias if hooks is None else hooks.unpack(saved)
    keeps_original = saved.held is not None or (saved.entry is not None and saved.entry.original is not None)
    pack, unpack = pair if hooks is None else hooks.watch_inner(*pair)
    unrecorded = torch.no_grad()
    with compat.unseen.unseen_by_functions():  # a mode of functions would see gradients being turned off
        before = compat.tensors.version_of(tensor)
        unrecorded.__enter__()
    try:
        if keeps_original:
            with compat.unseen.unseen_by_functions():  # torch's own is seen by modes of operations alone
                tensor = compat.tensors.detached(tensor)
        kept = entry.kept = pack(tensor)
        entry.unpack = functools.partial(unpack, kept)
    finally:
        with compat.unseen.unseen_by_functions():
            unrecorded.__exit__(None, None, None)
            written = compat.tensors.version_of(tensor) != before
    if written:
        # torch refuses a pack hook that writes to its input, in these words.
        raise RuntimeError(compat.Sentence.PACK_WRITES)


def _refuse() -> torch.Tensor:
    raise RuntimeError(compat.Sentence.NOTHING_PACKED)


def _data(raw: Any) -> Any:
    """Return what the program's own pack hook has returned for a raw saved tensor, or the tensor."""
    kept = compat.kept.packed(raw)
    if isinstance(kept, SavedTensor):
        if type(kept.entry) is not RegisteredHooks:
            return kept.alias if kept.held is None else kept.held
        if kept.entry.unpack is _refuse:
            _refuse()
        kept = kept.entry.kept
    return kept.kept if type(kept) is saves.PackedWithRecords else kept
