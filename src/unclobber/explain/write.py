"""The one builder of a ``Write``, and of all writes to a saved tensor: lines, writers, counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import torch

from ..model import Frame, PastCounter, Site, Write
from ..observe.hooks import kernels as _writes_table
from ..observe.record import METADATA_ONLY, KernelName, Ledger, SavedTensor, SaveState, TracedName, WriteEvent
from ..source import ProgramNames, Stack, resolve
from ..torch_internals import compat
from . import reads, spelling
from ._live import user_place

_LAUNCHES = "/triton/runtime/"


def at(site: Site | None, operation: str, expression: str | None = None) -> Write:
    """Return a write that torch can see and that touches the needed elements, for the caller to refine."""
    if site is not None and isinstance(operation, KernelName):
        # In place of the frames in Triton, which are those of every launch.
        led = [frame for frame in site.below if _LAUNCHES not in frame.path]
        site = replace(site, below=(*led, operation.store))
    return Write(
        site=site,
        operation=str(operation),  # a name alone, because findings are sent to other processes
        bumps_version=True,
        overlaps_needed=True,
        expression=expression,
    )


def by(operation: str, stack: Stack) -> Write:
    return at(resolve(stack), operation, spelling.spell_write(operation, stack))


def writes(state: SaveState, ledger: Ledger, names: ProgramNames) -> tuple[Write, ...]:
    """Return the writes to a saved tensor with their sources; writes of one line and operation are merged."""
    folded: dict[Any, Write] = {}
    version = state.saved.version
    history = ledger.history(state.saved)
    # A collective is seen in the program's thread and again in a library's own thread, which has no stack.
    history = [entry for entry in history if entry[0].stack] or history
    counters = ledger.counters(state.saved, [event for event, _ in history]) if state.moved else None
    for nth, (event, overlaps) in enumerate(history):
        site = resolve(event.stack)
        place = None if site is None else (site.path, site.line, site.column)
        key = (place, event.operation if site is None or not site.below else None)
        after = version + event.count * event.bumps if state.moved else version
        if counters is not None:
            version = counters[nth]
            after = version + min(event.bumps, counters[nth + 1] - version)
        earlier = folded.get(key)
        if earlier is None:
            folded[key] = _write(event, overlaps, site, version, after, state, ledger, names)
        else:
            folded[key] = replace(
                earlier,
                overlaps_needed=earlier.overlaps_needed or overlaps,
                version_after=None if earlier.version_before is None else after,
                count=earlier.count + event.count,
            )
        version = after
    written = [write.site for write in folded.values() if not write.shape_only]
    # `torch.randn(3, out=x)` resizes `x`, mostly to the size that it has, before it fills it.
    return tuple(w for w in folded.values() if not w.shape_only or w.site is None or w.site not in written)


def _write(
    event: WriteEvent,
    overlaps: bool,
    site: Site | None,
    before: int,
    after: int,
    state: SaveState,
    ledger: Ledger,
    names: ProgramNames,
) -> Write:
    """Build one write: its place, its writer, the versions around it, and how it passed the counter."""
    # The lines of one run of compiled code move the counter once, at its end.
    bumped = after > before or isinstance(event.operation, TracedName)
    actor = event.actor() if event.actor is not None else None
    writer: dict[str, Any] = {}
    if isinstance(actor, torch.optim.Optimizer):
        stepped = [saved for saved, other in _written_at_line(event, state, ledger) if other is actor]
        paths = {names.parameter(saved.alias) for saved in stepped}
        parameters = tuple(sorted(filter(None, paths)))
        writer = {"optimizer": _step_label(site, actor), "parameters": parameters}
    elif (
        isinstance(actor, torch.nn.Module)
        and not isinstance(actor, torch.fx.GraphModule)  # made by a compiler
        and site is not None
        and site.below
    ):
        others = {id(other): other for _, other in _written_at_line(event, state, ledger)}.values()
        modules = tuple(sorted({names.module(m) for m in others if isinstance(m, torch.nn.Module)}))
        writer = {"module": names.module(actor), "modules": modules}
    return replace(
        at(site, event.operation, spelling.spell_write(event.operation, event.stack)),
        bumps_version=bumped,
        overlaps_needed=overlaps,
        shape_only=event.operation in METADATA_ONLY and not state.storage_swapped,
        reached=ledger.reached(state.saved, event),
        version_before=before if after > before else None,
        version_after=after if after > before else None,
        count=event.count,
        by=_by_itself(event, () if site is None else site.below),
        past_counter=None if bumped else _way_past_the_counter(event, site),
        undeclared=None if bumped else _undeclared(event),
        **writer,
    )


def _step_label(site: Site | None, optimizer: torch.optim.Optimizer) -> str:
    """Return ``opt_d.step()`` as the user wrote it, else the optimizer's class."""
    if site is not None and site.source.rstrip().endswith(")") and ".step(" in site.source:
        return " ".join(site.source.split())
    return f"{type(optimizer).__name__}.step()"


def _written_at_line(
    event: WriteEvent, state: SaveState, ledger: Ledger
) -> list[tuple[SavedTensor, torch.nn.Module | torch.optim.Optimizer | None]]:
    """Return the saves that the running backward needs and the line of ``event`` wrote, each with the writer.

    Needed are those that its nodes keep, or those that the same checkpoint reads.
    """
    line, nodes = user_place(event.stack), reads.visited()
    kept = [saved for node in nodes for _, saved in reads.kept_by(node)] if nodes else [state.saved]
    if not any(saved is state.saved for saved in kept):
        kept = [saved for saved in ledger.live_saves() if saved.stack == state.saved.stack]
    written = [(saved, other) for saved in kept for other, _ in ledger.history(saved)]
    return [
        (saved, None if other.actor is None else other.actor())
        for saved, other in written
        if user_place(other.stack) == line
    ]


def _by_itself(event: WriteEvent, below: Sequence[Frame]) -> Literal["backward", "buffer broadcast"] | None:
    """Return the part of torch that wrote by itself, by the frames below the user's line; else None."""
    # Only the innermost frame below the line: deeper code in backward is a hook's, whose write is its own.
    if _ran(below[-1:], "torch/autograd/graph.py", "_engine_run_backward"):
        return "backward"
    return "buffer broadcast" if event.operation == "broadcast_" and _syncs_buffers(below) else None


def _syncs_buffers(below: Sequence[Frame]) -> bool:
    return _ran(below, "torch/nn/parallel/distributed.py", "DistributedDataParallel._sync_buffers")


def _ran(frames: Sequence[Frame], path: str, function: str) -> bool:
    return any(
        frame.function == function and frame.path.replace("\\", "/").endswith(path) for frame in frames
    )


def _way_past_the_counter(event: WriteEvent, site: Site | None) -> PastCounter:
    """Return how an observed write left the saved tensor's counter unchanged."""
    if event.operation.startswith("_fused_"):
        return "fused"
    if event.operation in compat.dispatcher.WRITES_PAST_OPERATIONS:
        return "elementwise"
    if isinstance(event.operation, KernelName):
        return "kernel"
    if event.operation == "set_data":
        return "set data"
    if _undeclared(event) is not None:
        return "undeclared"
    if event.operation in _writes_table.UNDECLARED:
        return "statistics"
    if site is not None and _syncs_buffers(site.below) and compat.behaviour.broadcasts_unseen:
        return "broadcast"
    return "data" if site is not None and ".data" in site.statement else "alias"


def _undeclared(event: WriteEvent) -> str | None:
    # Returns a custom operator whose kernel writes more than its schema declares.
    return next((name for name, op_name in _writes_table.caught.items() if op_name == event.operation), None)
