"""The changes that would save memory, as text."""

from __future__ import annotations

import textwrap

from ..model.text import listing, plural, size, times
from ._facts import Change, Compared, MemoryReport, Tried, TriedInPlace, short

_ADVICE = ("held", "unneeded", "twice", "dtype")
"""Sorts of changes whose ``write`` is a sentence, not code."""


def savings(report: MemoryReport, width: int) -> str:
    """Return the changes, largest saving first, and the curve."""
    rows = ["What would save memory"]
    if not report.changes:
        rows += wrapped("Nothing that is looked for would lower the peak by more than 1 %.", width)
        return "\n".join(rows)
    written: set[str] = set()
    for number, change in enumerate(report.changes, 1):
        # Changes of one kind share their code, which is printed once.
        rows += _change(number, change, width, spelled=change.write in written)
        written.add(change.write)
    if not any(change.tried for change in report.changes):
        rows += wrapped("Predicted from the recording; --try runs the program with each and compares.", width)
    if report.curve:
        rows += ["", *curve(report, width)]
    return "\n".join(rows)


def _change(number: int, change: Change, width: int, *, spelled: bool) -> list[str]:
    """Return the lines of one change; its code is left out if it was `spelled` before."""
    where = f"{short(change.place)}: " if change.place is not None else ""
    inside = f" in {listing(change.modules, limit=1)}" if change.modules else ""
    rows = wrapped(f"{number}. {where}{change.title} ({times(change.times)}{inside})", width, hang=5)
    if not spelled:
        rows += wrapped(change.write if change.sort in _ADVICE else f"write {change.write}", width, left=5)
    rows += wrapped(outcome(change), width, left=5)
    return rows


def outcome(change: Change) -> str:
    """Return what was predicted, and what was measured."""
    said = f"predicted {size(change.predicted)} off the peak"
    if change.recomputed:
        said += f", {100 * change.recomputed:.0f} % of forward computed twice"
    if change.tried is None:
        return said + (f"; not tried: {change.why_untried}" if change.why_untried else "")
    return f"{said}; {measured(change.tried)}"


def measured(tried: Tried) -> str:
    """Return the sentence on another run's peak, time and equality."""
    if tried.error is not None:
        return f"tried, and it failed: {tried.error}"
    percent = 100 * tried.saved / tried.peak_before if tried.peak_before else 0.0
    text = (
        f"measured {size(tried.saved)} off: {size(tried.peak_before)} to {size(tried.peak_after)}, "
        f"{percent:.0f} %, time {seconds(tried.seconds_before)} to {seconds(tried.seconds_after)}; "
        f"{equality(tried)}"
    )
    return text if tried.proved else f"NOT PROVED, {text}"


def in_place(trial: TriedInPlace) -> str:
    """Return the sentence on the run with all candidates in place."""
    if trial.error is not None:
        return f"The changed program failed, so nothing is proved: {trial.error}"
    if not trial.substituted:
        return "There was nothing to change."
    before, after = trial.peak_before, trial.peak_after
    peak = f"the peak {'fell' if after < before else 'rose'} from {size(before)} to {size(after)}"
    if before == after:
        peak = f"the peak stayed at {size(after)}: it bought nothing"
    calls = f"{plural(trial.substituted, 'call')} on {plural(trial.places, 'line')}"
    return f"{calls} ran in place: {equality(trial)}; {peak}."


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


def curve(report: MemoryReport, width: int) -> list[str]:
    """Return the heading and a row for each point, from the program as it is."""
    rows = ["Peak against time, step by step" if report.curve[0].tried else "Peak, step by step (predicted)"]
    first = report.curve[0].tried
    peak = report.peak
    assert peak is not None
    before = first.peak_before if first is not None else peak.moment.step
    rows.append(_point(before, before, None if first is None else first.seconds_before, "as it is"))
    for point in report.curve:
        what = " and ".join(f"{at + 1}" for at in point.changes)
        time = point.tried.seconds_after if point.tried else None
        rows.append(_point(before, point.peak, time, f"with {what}"))
    return [row for text in rows for row in textwrap.wrap(text, width, drop_whitespace=False)]


def _point(before: int, after: int, time: float | None, what: str) -> str:
    drop = f"{100 * (after - before) / before:+.0f} %" if before and after != before else ""
    return f"  {size(after):>10}  {drop:>6}  {'' if time is None else seconds(time):>9}  {what}"


def wrapped(text: str, width: int, left: int = 2, hang: int | None = None) -> list[str]:
    """Return a paragraph indented by `left` columns, and by `hang` from its second line on."""
    after = left if hang is None else hang
    return textwrap.wrap(
        text, width, initial_indent=" " * left, subsequent_indent=" " * after, break_long_words=False
    )
