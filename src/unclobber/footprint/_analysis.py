"""Interpretation of a trace as a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from ..derivatives import Reasons, by_node
from . import _inplace, _modules, _places
from ._facts import GradientLife, KeptStorage, LineTotal, LiveBytes, Location, Peak, Role
from ._shown import StepMemory
from ._timeline import LASTING, BytesOverTime
from ._trace import PackedSave, Storage, Trace, grouped

_POINTS = 600  # moments in a report's timeline at most; each is the highest of its stretch of ticks


def analyse(trace: Trace, *, command: tuple[str, ...], fake: bool, step: int) -> StepMemory:
    """Return the report of a trace: which line keeps what, for how long and why."""
    # What was alive when an allocation failed is the question, even if more had been alive before.
    peak = trace.tick if trace.failed is not None and trace.failed.wanted else trace.bytes.peak()
    # A save of an earlier step is no memory of this one, unless it is alive still.
    saves = grouped((s for s in trace.saves if trace.end(s) >= trace.began), lambda save: save.storage)
    storages = [_kept_storage(storage, members, trace, peak) for storage, members in saves.items()]
    kept = tuple(sorted(storages, key=lambda storage: (-storage.bytes, storage.since)))
    # A storage is charged to its first save, like `_lines` does.
    charged = [members[0] for members, s in zip(saves.values(), storages, strict=True) if _counts(s)]
    places: dict[Location, int] = {}
    moments = tuple(_moment(tick, trace, places) for tick in _shown(trace.bytes, peak))
    # No candidate is a value that the program would still have read, which a recording cut off doesn't show.
    in_place, candidates, together = ((), (), 0) if trace.ended_early else _inplace.gains(trace)
    live = trace.bytes.at(peak)
    # Without a backward, the whole step is forward.
    began = trace.tick if trace.backward_began is None else trace.backward_began
    return StepMemory(
        torch_version=str(torch.__version__),
        command=command,
        fake=fake,
        step=step,
        backward=trace.backwards > 0,
        operations=trace.tick - trace.start,
        backward_began=began - trace.start,
        ended=trace.tick - trace.start,
        peak=_peak(peak, trace, kept, places, began),
        kept=kept,
        by_line=_lines(kept),
        by_module=_modules.totals(trace, charged),
        timeline=moments,
        places=tuple(places),
        gradients=tuple(_gradients(trace, began)),
        in_place=in_place,
        candidates=candidates,
        together=together,
        peak_activations=live.kept + live.other,
        peak_kept=max(moment.kept for moment in trace.bytes.moments),
        ended_early=trace.ended_early,
    )


# --- what is kept ------------------------------------------------------------------------------------
def _kept_storage(storage: Storage, saves: list[PackedSave], trace: Trace, peak: int) -> KeptStorage:
    """Return the facts on one kept storage. Ticks count from the start of forward."""
    return KeptStorage(
        bytes=storage.bytes,
        kind=storage.kind,
        dtype=saves[0].dtype,
        shape=saves[0].shape,
        roles=tuple(_role(save) for save in saves),
        made_at=_places.place(storage.stack),
        made_by=storage.name if storage.maker is None else storage.maker.name,
        since=max(min(save.tick for save in saves), storage.born) - trace.start,
        until=max(trace.end(save) for save in saves) - trace.start,
        needed=any(save.needed is not None for save in saves),
        at_peak=any(save.tick <= peak <= trace.end(save) for save in saves),
    )


def _role(save: PackedSave) -> Role:
    """Return why a save is needed, by torch's derivative table and the edges that the graph really has."""
    rule = None if save.node is None else by_node(save.node)
    reason = None
    if rule is not None and save.node is not None and save.role is not None:
        needed = None if save.edges is None else rule.needed(save.edges)
        reason = Reasons(save.node, save.role, needed).in_torch_names(cite=False)
    return Role(
        operation=rule.operation if rule is not None else save.node,
        role=save.role,
        why=reason,
        place=_places.place(save.stack),
        module=save.module,
        shape=save.shape,
        function=save.function,
    )


def _counts(storage: KeptStorage) -> bool:
    return storage.at_peak and storage.kind == "activation"  # a line and a module are charged for it


def _lines(kept: Sequence[KeptStorage]) -> tuple[LineTotal, ...]:
    """Return the bytes kept at the peak, largest first, by the line of the storage's first save."""

    def line_of(position: int) -> tuple[str, int] | None:
        """Return the line of a storage's first save; saves without a known line share one row."""
        place = kept[position].roles[0].place
        return None if place is None else (place.path, place.line)

    positions = (position for position, storage in enumerate(kept) if _counts(storage))
    lines = [
        LineTotal(
            place=kept[members[0]].roles[0].place,
            bytes=sum(kept[position].bytes for position in members),
            kept=tuple(members),
            operations=_distinct(kept[position].roles[0].operation for position in members),
            modules=_distinct(kept[position].roles[0].module for position in members),
        )
        for members in grouped(positions, line_of).values()
    ]
    return tuple(sorted(lines, key=lambda total: -total.bytes))


def _distinct(texts: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))


# --- over time ---------------------------------------------------------------------------------------
def _moment(tick: int, trace: Trace, places: dict[Location, int]) -> LiveBytes:
    """Return the live bytes at a tick. Its place is a position in `places`, which grows by new ones."""
    place = None
    # Tick 0 is the time before the first operation, which no line ran.
    if 0 < tick <= len(trace.operations):
        place = _places.place(trace.operations[tick - 1].stack)
    # Positions, because a report has hundreds of moments at few lines.
    position = None if place is None else places.setdefault(place, len(places))
    return replace(trace.bytes.at(tick), place=position)


def _shown(line: BytesOverTime, peak: int) -> list[int]:
    """Return the ticks of the timeline: the highest of each span, the first, the last and the peak."""
    totals = line.totals
    count = len(totals)
    # Rounded up for at most `_POINTS` spans; the highest tick of each, so that no peak is lost between two of
    # them.
    span = max(1, -(-count // _POINTS))
    ticks = {
        line.first + max(range(start, min(start + span, count)), key=totals.__getitem__)
        for start in range(0, count, span)
    }
    return sorted(ticks | {line.first, line.first + count - 1, peak})


def _peak(
    tick: int, trace: Trace, kept: tuple[KeptStorage, ...], places: dict[Location, int], began: int
) -> Peak | None:
    """Return the facts on the tick with the most live bytes; None if nothing ran."""
    if not trace.operations:
        return None
    return Peak(
        moment=_moment(tick, trace, places),
        phase="forward" if tick <= began else "backward",
        operation=trace.operations[tick - 1].name if tick else "",
        saved_lasting=sum(storage.bytes for storage in kept if storage.kind in LASTING and storage.at_peak),
    )


def _gradients(trace: Trace, began: int) -> Iterable[GradientLife]:
    """Yield the gradients that backward made, with their lives in ticks."""
    for storage in trace.storages:
        if storage.kind in ("temporary", "gradient") and storage.maker and storage.born > began:
            yield GradientLife(
                bytes=storage.bytes,
                place=_places.place(storage.stack),
                operation=storage.maker.name,
                born=storage.born - trace.start,
                freed=None if storage.died is None else storage.died - trace.start,
                leaf=(storage.name or "a leaf") if storage.kind == "gradient" else None,
            )
