"""Evidence for one conflict: sources, names and formulas, by the holder of the tensor.

Runs only if there is a finding, on the stack of the backward that unpacked the tensor, so the user's
variables are still alive.
"""

from __future__ import annotations

from dataclasses import replace
from types import FrameType
from typing import Any, Literal

from ..model import Save, Site, Write
from ..observe.hooks import backward_calls
from ..observe.record import Fingerprint, Ledger, ProgramPoint, SavedTensor, SaveState
from ..source import ProgramNames, Stack, of_program, resolve, user_place
from ..torch_internals import compat
from . import line_range, need, reads, sentence, write
from ._evidence import Evidence, GradientMemory
from ._live import user_frames
from .save import HeldTensor, of_held, of_saved


def evidence(
    state: SaveState,
    ledger: Ledger,
    *,
    repaired: bool,
    backwards_before: int,
    goes_on: bool = True,
    node: Any = None,
) -> Evidence:
    """Return everything that the judge and the report need to know of a tensor that autograd saved.

    Args:
        repaired: Whether backward gets the right value.
        backwards_before: Backward calls of the process before the session.
        goes_on: Whether backward goes on, right or wrong.
        node: The node that unpacks it, or will; None for the node that runs.
    """
    runs, frames = node is None, user_frames()
    node = compat.graph.current_node() if runs else node
    role = reads.role_of(node, state.saved)
    # The sentence first: searching names reads tensors, and reading a stale view may give it a new history.
    known = runs or not _is_view(state.saved)
    torch_message = sentence.of(state, node, role, goes_on=goes_on) if known else None
    save = of_saved(state.saved, node, role, frames)
    facts = _evidence(state, ledger, save, node, frames, repaired, backwards_before)
    return replace(facts, torch_message=torch_message)


def _is_view(saved: SavedTensor) -> bool:
    """Return whether torch rebuilds the tensor's history when it is read, which may fail."""
    origin = saved.origin()
    return saved.base is not None or (origin is not None and origin._base is not None)


def changed_unseen(
    state: SaveState, ledger: Ledger, fingerprint: Fingerprint, *, backwards_before: int
) -> Evidence:
    """Return evidence for a save whose fingerprint changed without an observed write: a line range replaces
    the write."""
    good, bad, stack = fingerprint.good, fingerprint.bad, fingerprint.write
    written = None if stack is None else line_range.write_at(stack)
    facts = evidence(state, ledger, repaired=False, backwards_before=backwards_before)
    return replace(facts, line_range=line_range.between(good, bad, written), written=written, past_torch=None)


def held_elsewhere(
    state: SaveState,
    ledger: Ledger,
    held: HeldTensor,
    *,
    repaired: bool,
    backwards_before: int,
    read: Stack | None = None,
) -> Evidence:
    """Return evidence for a tensor that a custom Function's ``ctx`` or a checkpoint's code holds.

    Args:
        read: The stack of the recomputation that reads it.
    """
    frames = user_frames()
    save = of_held(state.saved, held, frames)
    node = compat.graph.current_node()
    facts = _evidence(state, ledger, save, node, frames, repaired, backwards_before, held.kind)
    return facts if read is None else replace(facts, read=resolve(read))


def _evidence(
    state: SaveState,
    ledger: Ledger,
    save: Save,
    node: Any,
    frames: list[FrameType],
    repaired: bool,
    backwards_before: int,
    kind: Literal["saved", "ctx", "recompute"] = "saved",
) -> Evidence:
    """Build the evidence from the save's state, its writes and the running backward."""
    saved = state.saved
    written = write.writes(state, ledger, frames)
    by_backward = state.unseen or any(write.by == "backward" for write in written)
    gradient = ProgramNames(frames).gradient(saved.alias) if by_backward else None
    unread = kind == "saved" and reads.never_read(saved, ledger, node)
    facts = Evidence(
        save=save,
        writes=written,
        need=need.running(node, backwards_before),
        detached=_detached(saved),
        moved=state.refused or (state.moved and not state.changed),
        unchecked=saved.unchecked,
        changed=state.changed,
        went_before=_went_before(node),
        changed_too=_changed_too(saved, ledger) if state.refused and (unread or not state.changed) else (),
        value_known=saved.entry is not None and not state.unseen and saved.entry.log is not None,
        unread=unread,
        unseen=state.unseen,
        storage_swapped=state.storage_swapped,
        torch_message=None,
        kept_bytes=ledger.account.kept,
        repaired=repaired,
        kind=kind,
        past_torch=_past_torch(saved, ledger),
        gradient_memory=None if gradient is None else GradientMemory(*gradient),
    )
    log = None if saved.entry is None else saved.entry.log
    hit = state.moved or any(write.overlaps_needed for write in written)
    if not state.changed or hit or log is None or log.handed_out is None:
        return facts
    return replace(facts, line_range=line_range.after_hand_out(log.handed_out))


def _went_before(node: Any) -> bool:
    """Return whether the line that runs backward also ran the one before and kept the graph that contains
    ``node``: ``loss.backward(retain_graph=True)`` in a loop, over a state that is never detached."""
    if node is None or len(backward_calls.last_two()) < 2:
        return False
    before, now = backward_calls.last_two()
    same = before.keeps_graph and user_place(before.stack) == user_place(now.stack)
    return same and compat.graph.sequence_number(node) < before.before


def _has_changed(saved: SavedTensor, ledger: Ledger) -> bool:
    seen = saved.entry is not None and ledger.state_of(saved).changed
    return seen or _changed_past_torch(saved, ledger) is not None


def _past_torch(saved: SavedTensor, ledger: Ledger) -> str | None:
    """Return the line range in which the content changed without an observed write; None if no fingerprint
    shows a change."""
    changed = _changed_past_torch(saved, ledger)
    return None if changed is None else line_range.between(changed.good, changed.bad)


def _changed_past_torch(saved: SavedTensor, ledger: Ledger) -> Fingerprint | None:
    if ledger.fingerprints is None:
        return None
    return ledger.fingerprints.changed(saved, lambda: ProgramPoint(of_program(), False))


def _changed_too(saved: SavedTensor, ledger: Ledger) -> tuple[Site | None, ...]:
    """Return the save sites of the other tensors that have changed and that the running backward has yet to
    read."""
    call = backward_calls.current()
    graph = None if call is None else call.of_engine.graph()
    return tuple(
        resolve(kept.stack)
        for node in (graph or {}).values()
        for _, kept in compat.kept.raw_saved(node)
        if isinstance(kept, SavedTensor)
        and kept is not saved
        and _has_changed(kept, ledger)
        and not reads.never_read(kept, ledger, node)
    )


def _detached(saved: SavedTensor) -> Write | None:
    stack = reads.detached(saved)
    return None if stack is None else replace(write.by("detach_", stack), overlaps_needed=False)
