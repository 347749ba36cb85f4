"""From raw facts to words' material: sources, names and formulas of one conflict.

Runs only when there is something to tell, on the stack of the backward that asked, so the user's
variables are still there to be looked at.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, Literal

import torch

from ..hooks import backward
from ..hooks import kernels as _writes_table
from ..hooks.graph import reachable
from ..model import Evidence, GradientMemory, Need, Save, Site, Write
from ..record import METADATA_ONLY, Ledger, SavedTensor, Standing, WriteEvent
from ..source import frames as _frames
from ..source import owners, sites
from ..source import spelling as _spelling
from ..torch_internals import compat
from ..torch_internals.own_writes import syncs_buffers, written_by_backward
from . import reads, sentence


@dataclass(frozen=True, slots=True)
class Held:
    """Who held a tensor that autograd did not save."""

    kind: Literal["ctx", "recompute"]
    role: str | None
    """``ctx.x``."""
    operation: str
    """The custom Function's name, or ``checkpoint``."""
    node: str | None


def evidence(
    standing: Standing,
    ledger: Ledger,
    *,
    repaired: bool,
    backwards_before: int,
    goes_on: bool = True,
    held: Held | None = None,
    stretch: str | None = None,
    written: Write | None = None,
    read: Site | None = None,
) -> Evidence:
    """Everything that the judge and the report want to know of one conflict.

    Args:
        repaired: Whether backward is given the right value.
        goes_on: Whether backward goes on, right or wrong.
    """
    saved = standing.saved
    node = compat.current_node()
    frames = _user_frames()
    role = reads.role_of(node, saved) if held is None else held.role
    # First: names are found by looking at tensors, and a view that is looked at may get a new history.
    torch_message = None if held is not None else sentence.of(standing, node, role, goes_on=goes_on)
    save = _save(saved, node, role, frames) if held is None else _held(saved, held, frames)
    writes = _writes(standing, ledger, frames)
    by_backward = standing.unseen or any(map(written_by_backward, writes))
    gradient = owners.gradient_owner(saved.alias, frames) if by_backward else None
    unread = held is None and reads.never_read(saved, ledger)
    return Evidence(
        save=save,
        writes=writes,
        need=need(node, backwards_before),
        detached=_detached(saved),
        moved=standing.refused or (standing.moved and not standing.changed),
        unchecked=saved.unchecked,
        changed=standing.changed,
        went_before=_went_before(node),
        changed_too=_changed_too(saved, ledger)
        if standing.refused and (unread or not standing.changed)
        else (),
        value_known=saved.filing is not None and not standing.unseen and saved.filing.log is not None,
        unread=unread,
        unseen=standing.unseen,
        swapped=standing.swapped,
        version_now=standing.version,
        torch_message=torch_message,
        kept_bytes=ledger.account.kept,
        repaired=repaired,
        kind="saved" if held is None else held.kind,
        stretch=stretch,
        written=written,
        read=read,
        gradient_memory=None if gradient is None else GradientMemory(*gradient),
    )


def _went_before(node: Any) -> bool:
    """Whether the line that runs backward ran the one before, too, and kept the graph that ``node`` was in
    already: ``loss.backward(retain_graph=True)`` in a loop, over a state that nobody detaches."""
    if node is None or len(backward.last_two()) < 2:
        return False
    before, now = backward.last_two()
    same = before.keeps_graph and user_place(before.stack) == user_place(now.stack)
    return same and compat.sequence_number(node) < before.before


def _changed_too(saved: SavedTensor, ledger: Ledger) -> tuple[Site | None, ...]:
    """Where the other tensors were saved that the running backward has yet to read, and that have changed."""
    call = backward.current()
    graph = None if call is None else reachable(call)
    return tuple(
        sites.resolve(kept.stack)
        for node in (graph or {}).values()
        for _, kept in compat.raw_saved(node)
        if isinstance(kept, SavedTensor)
        and kept is not saved
        and kept.filing is not None
        and not reads.never_read(kept, ledger, node)
        and ledger.standing(kept).changed
    )


def _detached(saved: SavedTensor) -> Write | None:
    stack = reads.detached(saved)
    if stack is None:
        return None
    site = sites.resolve(stack)
    return Write(
        site=site,
        operation="detach_",
        bumps_version=True,
        overlaps_needed=False,
        expression=_spelling.spell_write(site, "detach_", stack),
    )


def _user_frames(*, of_forward: bool = False) -> list[FrameType]:
    """Live frames of the user's code, innermost first.

    Args:
        of_forward: Leave out what runs inside of backward. There a custom Function's ``grad_out`` may lie
            in the memory of what its forward saved, and is no name for it.
    """
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if of_forward and backward.call_in(frame) is not None:
            frames.clear()
        if not sites.is_library(frame.f_code):
            frames.append(frame)
        frame = frame.f_back
    return frames


def need(node: Any, backwards_before: int) -> Need:
    """The backward call that is running, seen from ``node``."""
    call = backward.current()
    name = None if node is None else reads.node_name(node)
    if call is None:
        return Need(sites.resolve(_frames.capture(2)), node=name)
    return Need(sites.resolve(call.stack), nth=call.nth - backwards_before, node=name)


def _save(saved: SavedTensor, node: Any, role: str | None, frames: list[FrameType]) -> Save:
    alias = saved.alias
    site = sites.resolve(saved.stack)
    shape = tuple(alias.shape)
    name = owners.owner_name(_as_it_is(saved), frames)
    # A checkpoint's inputs are asked for by whichever node comes first: they are not what that one saved.
    innermost = next((code for code in saved.stack[::2] if not sites.is_ours(code)), None)
    by_checkpoint = role is None and compat.keeps_checkpoint_inputs(innermost)
    node_name = None if node is None or by_checkpoint else reads.node_name(node)
    spelling = _spelling.spell(site, node_name, role, saved.stack, shape=shape, name=name)
    expression = spelling.expression or owners.variable_name(alias, _user_frames(of_forward=True))
    filing = saved.filing
    times = filing.log.times(saved) if filing is not None and filing.log is not None else 1
    return replace(
        unplaced(saved),
        site=site,
        operation="checkpoint" if by_checkpoint else spelling.operation,
        node=node_name,
        role=role,
        expression=expression,
        name=name,
        gradient_of=spelling.gradient_of,
        why=spelling.why,
        why_words=spelling.why_words,
        nth=filing.nth if filing is not None else 1,
        of=max(times, filing.nth if filing is not None else 1),
    )


def unplaced(saved: SavedTensor) -> Save:
    """The facts of a saved tensor that need no look at the program."""
    alias = saved.alias
    return Save(
        site=None,
        shape=tuple(alias.shape),
        dtype=str(alias.dtype).removeprefix("torch."),
        bytes=alias.numel() * alias.itemsize,
        version=saved.version,
    )


def _held(saved: SavedTensor, held: Held, frames: list[FrameType]) -> Save:
    """A tensor that a custom Function's ``ctx`` or a checkpoint's code holds."""
    site = sites.resolve(saved.stack)
    expression = owners.variable_name(saved.alias, frames)
    if held.role is not None and site is not None and site.source == held.role:
        expression = held.role
    return replace(
        unplaced(saved),
        site=site,
        operation=held.operation,
        node=held.node,
        role=held.role,
        expression=expression,
        name=owners.owner_name(_as_it_is(saved), frames),
    )


def _as_it_is(saved: SavedTensor) -> torch.Tensor:
    """The tensor under which its owner is found: after ``.data =`` its memory is another."""
    origin = saved.origin()
    swapped = saved.filing is not None and saved.filing.swap is not None
    return origin if swapped and origin is not None else saved.alias


def _writes(standing: Standing, ledger: Ledger, frames: list[FrameType]) -> tuple[Write, ...]:
    """The writes of a standing with their sources; those of one line and operation folded to one."""
    folded: dict[Any, Write] = {}
    version = standing.saved.version
    history = ledger.history(standing.saved)
    if any(event.stack for event, _ in history):
        # What a library's own thread wrote, it did for an operation that was seen, too (collectives).
        history = [entry for entry in history if entry[0].stack]
    counters = ledger.counters(standing.saved, [event for event, _ in history]) if standing.moved else None
    for nth, (event, overlaps) in enumerate(history):
        site = sites.resolve(event.stack)
        key = (_place(site), event.operation if site is None or not site.below else None)
        after = version + event.count * event.bumps if standing.moved else version
        if counters is not None:
            version = counters[nth]
            after = version + min(event.bumps, counters[nth + 1] - version)
        earlier = folded.get(key)
        if earlier is not None:
            folded[key] = _merged(earlier, overlaps, after, event.count)
        else:
            folded[key] = _write(event, overlaps, site, version, after, standing, ledger, frames)
        version = after
    return tuple(folded.values())


def _place(site: Site | None) -> Any:
    return None if site is None else (site.path, site.line, site.column)


def _merged(write: Write, overlaps: bool, after: int, count: int) -> Write:
    return replace(
        write,
        overlaps_needed=write.overlaps_needed or overlaps,
        version_after=after,
        count=write.count + count,
    )


def _write(
    event: WriteEvent,
    overlaps: bool,
    site: Site | None,
    before: int,
    after: int,
    standing: Standing,
    ledger: Ledger,
    frames: list[FrameType],
) -> Write:
    bumped = after > before
    actor = event.actor() if event.actor is not None else None
    optimizer = module = None
    parameters: tuple[str, ...] = ()
    if isinstance(actor, torch.optim.Optimizer):
        optimizer = _step_label(site, actor)
        parameters = _written_by(event, ledger, frames)
    elif (
        isinstance(actor, torch.nn.Module)
        and not isinstance(actor, torch.fx.GraphModule)  # made by a compiler
        and site is not None
        and site.below
    ):
        module = owners.module_label(actor, frames)
    return Write(
        site=site,
        operation=event.operation,
        bumps_version=bumped,
        overlaps_needed=overlaps,
        shape_only=event.operation in METADATA_ONLY and not standing.swapped,
        version_before=before if bumped else None,
        version_after=after if bumped else None,
        expression=_spelling.spell_write(site, event.operation, event.stack),
        count=event.count,
        optimizer=optimizer,
        parameters=parameters,
        module=module,
        through=None if bumped else _way_past_the_counter(event, site),
    )


def _step_label(site: Site | None, optimizer: torch.optim.Optimizer) -> str:
    """``opt_d.step()`` as the user wrote it, else the optimizer's class."""
    if site is not None and site.source.rstrip().endswith(")") and ".step(" in site.source:
        return " ".join(site.source.split())
    return f"{type(optimizer).__name__}.step()"


def _written_by(event: WriteEvent, ledger: Ledger, frames: list[FrameType]) -> tuple[str, ...]:
    """Module paths of the live saved parameters which the same call of ``step`` wrote."""
    line = user_place(event.stack)
    names: dict[str, None] = {}
    for saved in ledger.live_saves():
        if any(
            other.actor == event.actor and user_place(other.stack) == line
            for other, _ in ledger.history(saved)
        ):
            name = owners.owner_name(saved.alias, frames)
            if name is not None:
                names[name] = None
    return tuple(sorted(names))


def user_place(stack: _frames.Stack) -> Any:
    """The innermost instruction of the user's own code on a stack; None where all of it is a library's."""
    index = sites.innermost_user(stack)
    return None if index is None else _frames.spot(stack[2 * index :])


def _way_past_the_counter(event: WriteEvent, site: Site | None) -> str:
    """How a write that we saw left the saved tensor's counter where it was."""
    if event.operation.startswith("_fused_"):
        return "a fused optimizer, which moves no version counter"
    if event.operation in compat.WRITES_PAST_OPERATIONS:
        return f"{event.operation}, which runs a Python function on each element and moves no version counter"
    if event.operation == "set_data":
        return ".data =, which leaves the version counter as it is"
    for name, packet in _writes_table.caught.items():
        if packet == event.operation:
            return f"the operation {name}, whose schema declares no write"
    if _writes_table.is_undeclared(event.operation):
        return "the kernel itself, which updates running statistics and no version counter"
    text = "" if site is None else site.statement
    if syncs_buffers(site):
        return "DistributedDataParallel's broadcast of buffers, which sets the version counter back"
    if ".data" in text:
        return ".data, which has a version counter of its own"
    return "an alias with a version counter of its own, or the counter was set back"
