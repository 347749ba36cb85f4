"""The report as text: the peak by kind, the lines that keep it, and the savings of in-place."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import partial

from ..model.text import listing, plural, shape, size, times
from . import _modules
from ._facts import InPlaceCandidate, InPlaceUse, KeptStorage, LineTotal, MemoryReport, short
from ._savings_text import in_place, savings, wrapped

_LINES = 12
_REASONS = 3
_paragraph = partial(wrapped, hang=4)


def to_text(report: MemoryReport, width: int = 80) -> str:
    """Return the report for a terminal of this width, without a newline at the end."""
    if report.peak is None:
        return "nothing recorded: the program ran no operation of torch's"
    parts = [
        _peak(report, width),
        _by_line(report, width),
        _by_module(report, width),
        _longest(report, width),
        _notes(report, width),
        _in_place(report, width),
    ]
    if report.trial is not None:
        parts.append("\n".join(["Tried", *_paragraph(in_place(report.trial), width)]))
    parts.append(savings(report, width))
    return "\n\n".join(part for part in parts if part)


def _peak(report: MemoryReport, width: int) -> str:
    """Return the peak's bytes by kind, and notices on the recording."""
    peak = report.peak
    assert peak is not None
    now = peak.moment
    where = f"operation {now.tick} of {report.ended}, {peak.phase}, {peak.operation}"
    head = f"Peak: {size(now.step)} of this step, beside {size(now.lasting)} that live anyway ({where})"
    rows = [
        ("kept for backward", now.kept, "activations that saves keep alive"),
        ("other activations", now.other, "held by the program alone"),
        ("gradients", now.gradients, "of leaves"),
        ("gradients on their way", now.temporaries, "made and freed by backward"),
        ("live anyway", now.lasting, "parameters, inputs, optimizer state"),
    ]
    body = [f"  {size(count):>10}  {name:<22}  {note}"[:width] for name, count, note in rows]
    body.append(f"  {size(peak.saved_lasting):>10}    of which backward reads"[:width])
    extra = []
    if report.fake:
        extra.append("Fake tensors: shapes were computed, values were not.")
    if report.ended_early:
        extra += textwrap.wrap(f"Recording ended early: {report.ended_early}", width)
    elif not report.backward:
        extra += textwrap.wrap(
            "The program called no backward: this is what its forward pass kept when it ended.", width
        )
    return "\n".join([*textwrap.wrap(head, width), *body, *extra])


def _by_line(report: MemoryReport, width: int) -> str:
    """Return the lines that keep most, each with its source."""
    if not report.by_line:
        return "No line keeps anything for backward at the peak."
    total = sum(line.bytes for line in report.by_line)
    rows = ["Kept for backward at the peak, by line"]
    for line in report.by_line[:_LINES]:
        left = f"  {size(line.bytes):>10} {_share(line.bytes, total)}  "
        rows += _hanging(f"{short(line.place)}  {_what(line, report.kept)}", left, width)
        if line.place is not None and line.place.source:
            rows += _hanging(" ".join(line.place.source.split()), " " * (len(left) + 2), width)
    left_out = report.by_line[_LINES:]
    if left_out:
        rows.append(f"  {size(sum(line.bytes for line in left_out)):>10}          {len(left_out)} more lines")
    return "\n".join(rows)


def _by_module(report: MemoryReport, width: int) -> str:
    """Return a tree of modules: what each keeps with all that is inside it."""
    if not report.by_module:
        return ""
    total = sum(module.own for module in report.by_module)
    rows = ["Kept for backward at the peak, by module with what is inside it; h.* is h.0, h.1 and so on"]
    rows = textwrap.wrap(rows[0], width)
    rows.append(f"  {'bytes':>10}    share  calls  module")
    for row in _modules.rows(report.by_module):
        calls = str(row.calls) if row.calls else ""
        left = f"  {size(row.bytes):>10} {_share(row.bytes, total)}  {calls:>5}  {'  ' * row.depth}"
        rows += _hanging(row.label, left, width)
    return "\n".join(rows)


def _share(part: int, total: int) -> str:
    return f"{100 * part / total if total else 0.0:5.1f} %"


def _hanging(text: str, left: str, width: int) -> list[str]:
    """Return a row whose text continues below itself if it is longer than the line."""
    room = max(width - len(left), 24)
    first, *others = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
    return [f"{left}{first}".rstrip(), *(f"{' ' * len(left)}{line}" for line in others)]


def _what(line: LineTotal, kept: Sequence[KeptStorage]) -> str:
    """Return an enumeration such as ``gelu self, addmm mat1 ×4 in b.0 (Block) and 3 more``."""
    counts: dict[str, int] = {}
    for position in line.kept:
        role = kept[position].roles[0]
        name = f"{role.operation or 'unknown operation'}{f' {role.role}' if role.role else ''}"
        counts[name] = counts.get(name, 0) + 1
    what = ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counts.items())
    return f"{what} in {listing(line.modules, limit=1)}" if line.modules else what


def _longest(report: MemoryReport, width: int) -> str:
    """Return the largest kept tensors with their reasons, one of each kind."""
    seen: dict[tuple[object, ...], KeptStorage] = {}
    for storage in report.kept:
        role = storage.roles[0]
        key = (role.place, role.operation, role.role)
        if storage.at_peak and storage.kind == "activation":
            # `kept` is sorted by size, so the first one of a kind is the largest.
            seen.setdefault(key, storage)
    if not seen:
        return ""
    rows = ["The largest, and why"]
    for storage in list(seen.values())[:_REASONS]:
        role = storage.roles[0]
        life = f"from operation {storage.since} to {storage.until}"
        text = (
            f"{size(storage.bytes)}  {shape(storage.shape)} {storage.dtype}, {short(role.place)}, {life}: "
            f"{role.operation or 'an operation'} keeps {role.role or 'it'}"
            + (f"; {role.why}" if role.why else "")
        )
        rows += _paragraph(text, width)
    return "\n".join(rows)


def _notes(report: MemoryReport, width: int) -> str:
    """Return sentences on shared saves, saves that backward never read, and inner gradients."""
    notes = []
    if report.shared:
        saved = sum(storage.bytes * (len(storage.roles) - 1) for storage in report.shared)
        notes.append(
            f"{plural(len(report.shared), 'tensor')} saved under several names and counted once "
            f"(counted each time, {size(saved)} more)."
        )
    if report.unneeded:
        total = sum(storage.bytes for storage in report.unneeded)
        places = tuple(dict.fromkeys(short(storage.roles[0].place) for storage in report.unneeded))
        notes.append(
            f"{size(total)} in {plural(len(report.unneeded), 'tensor')} were kept and not used by "
            f"this backward: no gradient that was wanted needs them ({', '.join(places[:4])})."
        )
    passing = [gradient for gradient in report.gradients if gradient.leaf is None]
    if passing:
        largest = max(passing, key=lambda gradient: gradient.bytes)
        freed = sum(gradient.freed is not None for gradient in passing)
        notes.append(
            f"Backward made {len(passing)} gradients on its way and freed {freed} of them; the largest, "
            f"{size(largest.bytes)}, by {largest.operation} for {short(largest.place)}."
        )
    return "\n".join(line for note in notes for line in textwrap.wrap(note, width))


# --- in place ------------------------------------------------------------------------------------------
def _in_place(report: MemoryReport, width: int) -> str:
    """Return what in-place operations spare, and what candidates would."""
    rows = ["What in-place buys"]
    if not report.in_place:
        rows += _paragraph("The program has no in-place operation on an activation.", width)
    for used in report.in_place[:_LINES]:
        rows += _paragraph(_used(used), width)
    useful = [candidate for candidate in report.candidates if candidate.peak_drop > 0]
    if not report.candidates:
        rows += _paragraph("No other operation could safely be in-place.", width)
    elif not useful:
        rows += _paragraph(
            f"{plural(len(report.candidates), 'line')} could safely be in-place, and it would buy nothing: "
            + _nothing(report),
            width,
        )
    for candidate in useful[:_LINES]:
        rows += _paragraph(_candidate(candidate), width)
    if len(useful) > 1 or (report.together and not useful):
        rows += _paragraph(
            f"All {plural(len(report.candidates), 'line')} together: {size(report.together)} lower.", width
        )
    return "\n".join(rows)


def _nothing(report: MemoryReport) -> str:
    if report.together:
        return "no line alone lowers the peak."
    return "old and new value are alive together only below the peak."


def _used(used: InPlaceUse) -> str:
    gain = f"spares {size(used.peak_saved)} at the peak" if used.peak_saved else "spares nothing at the peak"
    return f"{short(used.place)}: {used.operation} {gain} (ran {times(used.times)}; {used.reason})"


def _candidate(candidate: InPlaceCandidate) -> str:
    """Return the sentence on an operation that would lower the peak in place."""
    target = "" if candidate.operand == "self" else " on the other operand"
    where = f" in {listing(candidate.modules, limit=1)}" if candidate.modules else ""
    drop = size(candidate.peak_drop)
    return (
        f"{short(candidate.place)}: {candidate.operation}{target} would lower the peak by {drop} "
        f"(runs {times(candidate.times)}{where}; nobody reads the old value)"
    )
