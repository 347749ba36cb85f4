"""Evidence for one conflict: sources, names and formulas, by the holder of the tensor.

Runs only if there is a finding, on the stack of the backward that unpacked the tensor, so the user's
variables are still alive.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch

from ..model import Save, Site, Write
from ..observe.hooks import backward_calls
from ..observe.record import Ledger, ProgramPoint, SavedTensor, SaveState, open_memory
from ..source import ProgramNames, Stack, of_program, resolve
from ..torch_internals import compat
from . import line_range, need, reads, sentence, write
from ._evidence import Evidence, GradientMemory
from ._live import user_frames, user_place
from .save import of_held, of_saved


class SessionView:
    """The part of a session that an explanation depends on; a session inherits it."""

    active: bool
    ledger: Ledger
    backwards_before: int  # backward calls of the process before the session; numbers start after them
    policy: str  # the reaction to a conflict


def evidence(
    state: SaveState, session: SessionView, *, repaired: bool, goes_on: bool = True, node: Any = None
) -> Evidence:
    """Return everything that the judge and the report need to know of a tensor that autograd saved.

    Args:
        repaired: Whether backward gets the right value.
        goes_on: Whether backward goes on, right or wrong.
        node: The node that unpacks it, or will; None for the node that runs.
    """
    runs, names = node is None, ProgramNames(user_frames())
    node = compat.graph.current_node() if runs else node
    role = reads.role_of(node, state.saved)
    # The sentence first: searching names reads tensors, and reading a stale view may give it a new history.
    known = runs or not _is_view(state.saved)
    torch_message = sentence.of(state, node, role, goes_on=goes_on) if known else None
    save = of_saved(state.saved, node, role, names)
    return _evidence(state, session, save, node, names, torch_message=torch_message, repaired=repaired)


def _is_view(saved: SavedTensor) -> bool:  # torch rebuilds a view's history when it is read, which may fail
    origin = saved.origin()
    return saved.base is not None or (origin is not None and origin._base is not None)


def changed_unseen(state: SaveState, session: SessionView) -> Evidence:
    """Return the evidence of a change that no hook saw, with a range of lines in place of the write."""
    fingerprint = state.saved.fingerprint
    assert fingerprint is not None
    written = None if fingerprint.write is None else line_range.write_at(fingerprint.write)
    lines = line_range.between(fingerprint.good, fingerprint.bad, written)
    facts = evidence(state, session, repaired=False)
    return replace(facts, line_range=lines, written=written, past_torch=None)


def held_elsewhere(
    state: SaveState,
    session: SessionView,
    kind: Literal["ctx", "recompute", "cache"],
    *,
    repaired: bool = False,
    read: Stack = (),
    torch_message: str | None = None,
    **held: Any,
) -> Evidence:
    """Return evidence for a tensor that a custom Function's ``ctx`` or a checkpoint's code holds.

    Args:
        kind: Which of both holds it.
        read: The stack of the recomputation that reads it.
        held: The holder, as ``save.of_held`` takes it.
    """
    names, node = ProgramNames(user_frames()), compat.graph.current_node()
    save = of_held(state.saved, names, **held)
    facts = {"repaired": repaired, "read": resolve(read), "torch_message": torch_message}
    return _evidence(state, session, save, node, names, kind, **facts)


def _evidence(
    state: SaveState,
    session: SessionView,
    save: Save,
    node: Any,
    names: ProgramNames,
    kind: Literal["saved", "ctx", "recompute", "cache"] = "saved",
    **facts: Any,
) -> Evidence:
    """Build the evidence from the save's state, its writes and the running backward, and ``facts``."""
    saved, ledger = state.saved, session.ledger
    written = write.writes(state, ledger, names)
    by_backward = state.unseen or any(write.by == "backward" for write in written)
    gradient = names.gradient(saved.alias) if by_backward else None
    unread = kind == "saved" and reads.never_read(saved, ledger, node)
    hidden = saved.fingerprint if _has_changed_past_torch(saved, ledger) else None
    log = None if saved.entry is None else saved.entry.log
    hit = state.moved or bool(Write.overwriting(written))
    if state.changed and not hit and log is not None:
        if log.handed_out is not None:
            facts["line_range"] = line_range.after_hand_out(log.handed_out)
        elif open_memory.is_borrowed(saved.alias.untyped_storage()):
            facts["line_range"] = line_range.BORROWED
    return Evidence(
        save=save,
        writes=written,
        need=need.running(node, session.backwards_before),
        detached=_detached(saved),
        moved=state.refused or (state.moved and not state.changed),
        unchecked=saved.unchecked,
        changed=state.changed,
        carried=_is_carried(saved, node),
        feeds_others=_feeds_others(saved, ledger, node),
        changed_too=_changed_too(saved, ledger) if state.refused and (unread or not state.changed) else (),
        value_known=saved.entry is not None and not state.unseen and saved.entry.log is not None,
        unread=unread,
        handed_out=log is not None and log.handed_out is not None,
        keeps_history=_keeps_history(saved, node),
        unseen=state.unseen,
        differentiated=saved.entry is not None and saved.entry.differentiated,
        storage_swapped=state.storage_swapped,
        kept_bytes=ledger.account.kept,
        kind=kind,
        past_torch=None if hidden is None else line_range.between(hidden.good, hidden.bad),
        gradient_memory=None if gradient is None else GradientMemory(*gradient),
        **facts,
    )


def _is_carried(saved: SavedTensor, node: Any) -> bool:
    """Return whether the line that runs backward also ran the one before and kept the graph that contains
    ``node``, and an operation since then on the same weight has used what came of that graph:
    ``loss.backward(retain_graph=True)`` in a loop, over a state that is never detached.

    Of several losses of one forward none is such: no operation on the weight came after the first backward.
    """
    if node is None or len(backward_calls.last_two()) < 2:
        return False
    before, now = backward_calls.last_two()
    number, key = compat.graph.sequence_number, compat.tensors.storage_key_or_none
    is_same_line = user_place(before.stack) == user_place(now.stack)
    if not before.keeps_graph or not is_same_line or number(node) >= before.before:
        return False
    weight = key(saved.alias)
    since = (
        other
        for other in reads.visited()
        if number(other) >= before.before
        and any(key(kept.alias) == weight for _, kept in reads.kept_by(other))
    )
    return node in compat.graph.nodes_below(since)


def _keeps_history(saved: SavedTensor, node: Any) -> bool:
    """Return whether an operation made the tensor that ``node`` keeps, and no write is in its history; False
    if it is gone, or for a view, which torch gives a new node."""
    tensor, history = saved.origin(), None if saved.entry is None else saved.entry.history
    maker = None if tensor is None else compat.graph.grad_fn(tensor)
    return maker is not None and (maker is node or (history is not None and history.is_of(maker)))


def _feeds_others(saved: SavedTensor, ledger: Ledger, node: Any) -> bool:
    """Return whether an optimizer wrote last, and backward computes gradients of leaves that it doesn't have,
    and that ``node``'s operation comes before: a discriminator's, which reads what a generator has made."""
    actors = [event.actor() for event, _ in ledger.history(saved) if event.actor is not None]
    if node is None or not actors or not isinstance(actors[-1], torch.optim.Optimizer):
        return False
    own = [id(parameter) for group in actors[-1].param_groups for parameter in group["params"]]
    below = set(compat.graph.nodes_below([node]))
    after = [other for other in reads.visited() if other not in below and hasattr(other, "variable")]
    return any(id(leaf.variable) not in own for leaf in after)


def _has_changed_past_torch(saved: SavedTensor, ledger: Ledger) -> bool:
    fingerprints = ledger.fingerprints
    return fingerprints is not None and (
        fingerprints.changed(saved, lambda: ProgramPoint(of_program(), False)) is not None
    )


def _changed_too(saved: SavedTensor, ledger: Ledger) -> tuple[Site | None, ...]:
    """Return the save sites of other changed tensors that the running backward has yet to read."""
    return tuple(
        resolve(kept.stack)
        for node in reads.visited()
        for _, kept in reads.kept_by(node)
        if kept is not saved
        and ((kept.entry and ledger.state_of(kept).changed) or _has_changed_past_torch(kept, ledger))
        and not reads.never_read(kept, ledger, node)
    )


def _detached(saved: SavedTensor) -> Write | None:
    stack = reads.detached(saved)
    return None if stack is None else replace(write.by("detach_", stack), overlaps_needed=False)
