"""Sentences of a report, which text and page share."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ..model.text import listing, plural, shape, size
from ._facts import Change, Compared, InPlaceUse, KeptStorage, LineTotal, MemoryReport, TriedInPlace, short

_ADVICE = ("held", "unneeded", "twice", "dtype")  # sorts of changes whose `write` is a sentence, not code


def at_peak(report: MemoryReport) -> str:
    """Return the moment of the peak: ``in the backward of net.py:3, F.relu(x)``."""
    peak = report.peak
    assert peak is not None
    if peak.moment.place is None:
        return f"in {peak.phase}"
    place = report.places[peak.moment.place]
    phase = "the backward of" if peak.phase == "backward" else "forward, at"
    return f"in {phase} {short(place)}, {' '.join(place.source.split())}"


def notices(report: MemoryReport) -> list[str]:
    """Return what limits the recording, and what to do about it."""
    said = []
    if report.fake:
        said.append("Fake tensors: shapes were computed, values were not.")
    if report.ended_early:
        said.append(f"Recording ended early: {report.ended_early.rstrip('.')}.")
        if fake_command(report):
            said.append(
                "Shapes alone need no memory: if the program makes its model and its data itself and looks "
                "at no values, this shows the whole step, with what would save some:"
            )
    elif not report.backward:
        said.append("The program called no backward: this is what its forward pass kept when it ended.")
    return said


def fake_command(report: MemoryReport) -> str:  # empty if this one had the memory for it
    if report.fake or not (report.ended_early or "").startswith("out of memory"):
        return ""
    step = ("--step", f"{report.step}") if report.step > 1 else ()
    return shlex.join(("unclobber", "memory", "--fake", *step, *report.command))


# --- what is kept ------------------------------------------------------------------------------------
def kinds(line: LineTotal, report: MemoryReport) -> str:
    """Return what a line keeps, as ``gelu input, linear input (4 tensors) in b.0 (Block) and 3 more``."""
    roles = [report.kept[position].roles[0] for position in line.kept]
    counts = Counter(f"{role.by} {role.what}" if role.role else role.by for role in roles)
    what = ", ".join(f"{name}{_several(count)}" for name, count in counts.items())
    return f"{what} in {listing(line.modules, limit=1)}" if line.modules else what


def reasons(line: LineTotal, report: MemoryReport) -> str:
    """Return what a line keeps and why, as a sentence for each role."""
    members: dict[tuple[str, str], list[int]] = {}
    for position in line.kept:
        storage = report.kept[position]
        role = storage.roles[0]
        members.setdefault((f"{role.by} keeps {_its(role.what)}", role.reason), []).append(storage.bytes)
    said = []
    for (what, why), sizes in members.items():
        said.append(f"{size(sum(sizes))}: {what}{_several(len(sizes))}{f' — {why}' if why else ''}.")
    where = f" In {listing(line.modules, limit=1)}." if line.modules else ""
    return " ".join(said) + where


def life(storage: KeptStorage) -> str:
    role = storage.roles[0]
    source = f", {' '.join(role.place.source.split())}" if role.place is not None else ""
    return (
        f"{size(storage.bytes)}  {shape(storage.shape)} {storage.dtype}, {short(role.place)}{source}: "
        f"{role.by} keeps {_its(role.what)}" + (f"; {role.reason}" if role.why else "")
    )


def _several(count: int) -> str:
    return "" if count == 1 else f" ({plural(count, 'tensor')})"


def _its(what: str) -> str:
    return f"its {what}" if what in ("input", "result", "weight", "mask") else what


def notes(report: MemoryReport) -> list[str]:
    """Return sentences on shared saves, saves that backward never read, and inner gradients."""
    said = []
    if report.shared:
        more = sum(storage.bytes * (len(storage.roles) - 1) for storage in report.shared)
        said.append(
            f"{plural(len(report.shared), 'tensor')} saved under several names and counted once "
            f"(counted each time, {size(more)} more)."
        )
    if report.unneeded:
        total = sum(storage.bytes for storage in report.unneeded)
        places = tuple(dict.fromkeys(short(storage.roles[0].place) for storage in report.unneeded))
        were = "was" if len(report.unneeded) == 1 else "were"
        said.append(
            f"{size(total)} in {plural(len(report.unneeded), 'tensor')} {were} kept and not used by "
            f"this backward: no gradient that was wanted needs them ({', '.join(places[:4])})."
        )
    passing = [gradient for gradient in report.gradients if gradient.leaf is None]
    if passing:
        largest = max(passing, key=lambda gradient: gradient.bytes)
        alive = sum(gradient.freed is None for gradient in passing)
        freed = f"and freed all but {alive}" if alive else "and freed what it had made"
        said.append(
            f"Backward made {plural(len(passing), 'gradient')} on its way {freed}; the largest, "
            f"{size(largest.bytes)}, in the backward of {short(largest.place)}."
        )
    return said


# --- in place ----------------------------------------------------------------------------------------
def in_place(report: MemoryReport, most: int) -> list[str]:
    """Return what in-place operations spare, and what more of them would."""
    said = [_used(used) for used in report.in_place[:most]]
    if not report.in_place and not report.ended_early:
        said = ["The program has no in-place operation on an activation that has an out-of-place form."]
    alone = any(candidate.peak_drop for candidate in report.candidates)
    count = plural(len(report.candidates), "line")
    if report.candidates and not report.together:
        said.append(
            f"{count} could safely be in-place, and it would buy nothing: old and new value are alive "
            "together only below the peak."
        )
    elif report.candidates:
        lines = {(c.operation, short(c.place)): c for c in report.candidates if c.peak_drop or not alone}
        names = listing([f"{operation} at {place}" for operation, place in lines])
        lower = f"which would lower the peak by {size(report.together)}"
        said.append(f"{count} could safely be in-place, {lower}: {names}.")
    elif not report.ended_early:
        said.append("No other operation could safely be in-place.")
    if report.trial is not None:
        said.append(f"Tried: {_tried_in_place(report.trial)}")
    return said


def _used(used: InPlaceUse) -> str:
    gain = f"spares {size(used.peak_saved)} at the peak" if used.peak_saved else "spares nothing at the peak"
    return f"{short(used.place)}: {used.operation} {gain} (ran {_often(used.times)}; {used.reason})"


def _often(count: int) -> str:
    return "once" if count == 1 else plural(count, "time")


def _tried_in_place(trial: TriedInPlace) -> str:
    """Return the sentence on the run with all candidates in place."""
    if trial.error is not None:
        return f"the changed program failed, so nothing is proved: {trial.error}"
    if not trial.substituted:
        return "there was nothing to change."
    before, after = trial.peak_before, trial.peak_after
    peak = f"the peak {'fell' if after < before else 'rose'} from {size(before)} to {size(after)}"
    if before == after:
        peak = f"the peak stayed at {size(after)}: it bought nothing"
    calls = f"{plural(trial.substituted, 'call')} on {plural(trial.places, 'line')}"
    return f"{calls} ran in place: {equality(trial)}; {peak}."


# --- changes -----------------------------------------------------------------------------------------
def head(change: Change) -> str:
    where = f"{short(change.place)}: " if change.place is not None else ""
    inside = f" in {listing(change.modules, limit=1)}" if change.modules else ""
    return f"{where}{change.title} ({_often(change.times)}{inside})"


def with_code(changes: Iterable[Change]) -> list[tuple[Change, str]]:
    """Return each change with what to write; that is empty if a change before it has the same code."""
    written: set[str] = set()
    said = []
    for change in changes:
        text = change.write if change.sort in _ADVICE else f"write {change.write}"
        said.append((change, "" if text in written else text))
        written.add(text)
    return said


def no_changes(report: MemoryReport) -> str:
    if report.ended_early:
        return "What could be given up is known once the step has run to its end."
    return "Nothing that is looked for would lower the peak by more than 1 %."


def outcome(change: Change, *, figures: bool = True) -> str:
    """Return what was predicted and what was measured; without `figures` no bytes, which a bar shows."""
    off = f" {size(change.predicted)} off the peak" if figures else ""
    said = f"predicted{off}"
    if change.recomputed:
        said += f", {100 * change.recomputed:.0f} % of forward computed twice"
    tried = change.tried
    if tried is None:
        return said + (f"; not tried: {change.why_untried}" if change.why_untried else "")
    if tried.error is not None:
        return f"{said}; tried, and it failed: {tried.error}"
    percent = 100 * tried.saved / tried.peak_before if tried.peak_before else 0.0
    peaks = (
        f"{size(tried.saved)} off: {size(tried.peak_before)} to {size(tried.peak_after)}, {percent:.0f} %, "
    )
    time = f"time {seconds(tried.seconds_before)} to {seconds(tried.seconds_after)}; {equality(tried)}"
    proved = "" if tried.proved else "NOT PROVED, "
    return f"{said}; {proved}measured {peaks if figures else ''}{time}"


def equality(tried: Compared) -> str:
    """Return how the other run's loss, gradients and buffers compare."""
    if not tried.equal_loss:
        return "the loss is another one"
    if tried.changed_gradients:
        return f"{tried.changed_gradients} of {plural(tried.gradients, 'gradient')} changed"
    if tried.changed_buffers:
        return f"{plural(tried.changed_buffers, 'buffer')} changed, such as running statistics updated twice"
    if tried.rounded_gradients:
        largest = f"{tried.largest_difference:.0e} of the largest element"
        return f"{plural(tried.gradients, 'gradient')} equal within {largest}"
    return f"{plural(tried.gradients, 'gradient')} equal to the bit"


def seconds(value: float) -> str:
    """Return a time in milliseconds or seconds.

    Example:
        >>> seconds(0.0123), seconds(2.5)
        ('12.3 ms', '2.50 s')
    """
    return f"{1000 * value:.1f} ms" if value < 1 else f"{value:.2f} s"


@dataclass(frozen=True)
class CurveRow:
    """A row of the curve: the program as it is, or with some changes."""

    bytes: int
    share: float  # its peak over that of the program as it is
    time: str
    what: str


def curve(report: MemoryReport) -> list[CurveRow]:
    """Return the steps of the curve, from the program as it is; empty without a curve."""
    if not report.curve or report.peak is None:
        return []
    first = report.curve[0].tried
    before = report.peak.moment.step if first is None else first.peak_before
    steps = [(before, None if first is None else first.seconds_before, "as it is")]
    for point in report.curve:
        time = None if point.tried is None else point.tried.seconds_after
        steps.append((point.peak, time, f"with {' and '.join(f'{at + 1}' for at in point.changes)}"))
    return [
        CurveRow(count, count / before if before else 0.0, "" if time is None else seconds(time), what)
        for count, time, what in steps
    ]
