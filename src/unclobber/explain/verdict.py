"""The decision at one unpack, made before any evidence is built, so that no internal error of an explanation
can change a gradient."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..model import or_default
from ..observe.record import Ledger, SavedTensor, SaveState
from ..torch_internals import compat
from .reads import is_detached, never_read
from .sentence import shortest


class Verdict(NamedTuple):
    """The decision at one unpack."""

    state: SaveState
    value: torch.Tensor  # the tensor that backward gets, unless it is refused
    refused: bool = False
    reported: bool = False  # whether a finding is reported: the value is wrong, or torch would refuse it

    @classmethod
    def on(cls, saved: SavedTensor, ledger: Ledger, policy: str) -> Verdict:
        """Return the verdict on a saved tensor by the session's policy, without reading any source file."""
        entry = saved.entry
        state = ledger.state_of(saved)
        now = state.now
        # Only `watch` refuses as torch does; guard needs no history (test_right_under_guard).
        if policy == "watch" and is_detached(saved):
            return cls(state, now, refused=True)
        # Writes after the session's end went unseen: test_graph_passed_from_guard_to_guard.
        sealed = entry.sealed if entry is not None else None
        written_after_exit = sealed is not None and state.version != sealed
        if not (state.moved or state.changed or written_after_exit):
            return cls(state, now)
        # A failed query counts as a read: better one finding too many than a wrong gradient.
        if not state.refused and or_default(lambda: never_read(saved, ledger), False):
            return cls(state, now)
        if policy == "watch":
            # If torch would go on with the present value, so does `watch`, which only reports it.
            return cls(state, now, refused=state.refused, reported=state.changed)
        if written_after_exit or state.unseen or (entry is not None and entry.differentiated):
            return cls(state, now, refused=True)
        as_saved = saved.alias if state.value is None or not state.changed else state.value
        # If torch refuses although no element changed, guard has nothing to repair, but audit reports it.
        return cls(state, as_saved, reported=state.changed or (policy == "audit" and state.refused))

    @staticmethod
    def by_counter(saved: SavedTensor, version: int, policy: str) -> str | None:
        said = shortest(saved, version)
        return compat.Sentence.DETACHED if said is None and policy == "watch" and is_detached(saved) else said
