"""Hooks that the program registers for one saved tensor, ``grad_fn._raw_saved_self.register_hooks(…)``.

torch has one pair for each, which is the session's, and refuses another. So the program's pair is kept in
the save record: its pack hook is called at once, and its unpack hook when backward unpacks the save.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ...torch_internals import compat
from ...torch_internals.patches import AttributeStandIn, Patches
from ..record import RegisteredHooks, SavedTensor, UncheckedSave, leave_to
from . import saves


def install(patches: Patches) -> None:
    """Replace ``register_hooks`` and ``data`` of raw saved tensors, if torch shows the save record there."""
    if compat.behaviour.shows_packed:
        home = compat.entries.RAW_SAVED
        patches.stand_in(home, "register_hooks", _register_hooks)
        patches.replace(home, "data", AttributeStandIn(vars(home)["data"], getter=_data))


def _register_hooks(original: Callable[..., None]) -> Callable[..., None]:
    """Return a replacement for ``register_hooks``, which keeps the program's pair in the save record."""

    def register_hooks(raw: Any, *pair: Any) -> None:
        """Keep the pair, or let torch refuse it as it would without a session."""
        saved = compat.kept.packed(raw)
        hooks = saves.innermost()
        if (
            not isinstance(saved, SavedTensor)
            or type(saved.entry) is RegisteredHooks
            or len(pair) != 2
            or not all(map(callable, pair))
            or (hooks is None and saved.entry is not None)
        ):
            original(raw, *pair)  # torch refuses, or keeps them itself
            return
        checked, saved.__class__ = saved.__class__, UncheckedSave  # hooks take the place of torch's check
        try:
            entry = _kept_by(saved, pair, hooks)
        except BaseException:
            saved.__class__ = checked
            raise
        leave_to(saved, entry)

    return register_hooks


def _kept_by(
    saved: SavedTensor, pair: tuple[Any, ...], hooks: saves.SavedTensorHooks | None
) -> RegisteredHooks:
    """Call the pack hook of ``pair`` as torch would. Return the entry that keeps its result and the unpack
    hook."""
    tensor = saved.alias if hooks is None else hooks.unpack(saved)
    if tensor is saved.held:
        tensor = saved.alias
    pack, unpack = pair if hooks is None else hooks.watch_inner(*pair)
    with compat.unseen.unseen_by_functions():
        before = tensor._version
    with torch.no_grad():
        kept = pack(tensor)
    with compat.unseen.unseen_by_functions():
        if tensor._version != before:
            # torch refuses a pack hook that writes to its input, in these words.
            raise RuntimeError(compat.Sentence.PACK_WRITES)
    return RegisteredHooks(kept, functools.partial(unpack, kept))


def _data(raw: Any) -> Any:
    kept = compat.kept.packed(raw)
    if isinstance(kept, SavedTensor):
        if type(kept.entry) is not RegisteredHooks:
            return kept.alias if kept.held is None else kept.held
        kept = kept.entry.kept
    return kept.kept if type(kept) is saves.PackedWithRecords else kept
