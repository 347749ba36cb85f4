"""The report as text: the peak by kind, the lines that keep it, and what would save some."""

from __future__ import annotations

import textwrap

from ..model.text import plural, size
from . import _modules, _sentences
from ._facts import KeptStorage, MemoryReport, short

_LINES = 12
_REASONS = 3
_FEW = 4  # lines and changes in the short table
_USUAL = 80  # width of the short table


def to_text(report: MemoryReport, width: int) -> str:
    """Return the report for a terminal of this width, without a newline at the end."""
    if report.peak is None:
        return "nothing recorded: the program ran no operation of torch's"
    buys = _sentences.in_place(report, _LINES)
    parts = [
        _peak(report, width),
        _by_line(report, width),
        _by_module(report, width),
        _longest(report, width),
        [row for note in _sentences.notes(report) for row in textwrap.wrap(note, width)],
        ["What in-place buys", *(row for text in buys for row in _wrapped(text, width, hang=4))]
        if buys
        else [],
        _savings(report, width),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def to_table(report: MemoryReport) -> str:
    """Return the report in about ten lines: the peak, the lines that keep most, the best changes."""
    if report.peak is None:
        return to_text(report, _USUAL)
    now = report.peak.moment
    rows = [f"peak {size(now.step)} of this step, {size(now.kept)} of it kept for backward"]
    rows += [
        f"  {size(line.bytes):>10}  {short(line.place)}  {_sentences.kinds(line, report)}"
        for line in report.by_line[:_FEW]
    ]
    if report.changes:
        rows.append(
            f"{plural(len(report.changes), 'change')} would lower the peak; print() shows the whole report"
        )
        rows += [f"  {size(change.saved):>10}  {_sentences.head(change)}" for change in report.changes[:_FEW]]
    return "\n".join(row if len(row) <= _USUAL else f"{row[: _USUAL - 2]} …" for row in rows)


def _peak(report: MemoryReport, width: int) -> list[str]:
    """Return the peak's bytes by kind, and notices on the recording."""
    peak = report.peak
    assert peak is not None
    now = peak.moment
    head = f"Peak: {size(now.step)} of this step, besides {size(now.lasting)} that live anyway, "
    rows = [
        (now.kept, "kept for backward", "activations that saves keep alive"),
        (now.other, "other activations", "held by the program alone"),
        (now.gradients, "gradients", "of leaves"),
        (now.temporaries, "gradients on their way", "made and freed by backward"),
        (now.lasting, "live anyway", "parameters, inputs, optimizer state"),
        (peak.saved_lasting, "  of which backward reads", ""),
    ]
    wide = width >= 72  # below that, half a note would stand at the end of each row
    body = [f"  {size(count):>10}  {name:<22}  {note if wide else ''}".rstrip() for count, name, note in rows]
    notices = [row for text in _sentences.notices(report) for row in _wrapped(text, width, left=0)]
    # Not wrapped, because it is to be pasted.
    command = [f"  {text}"] if (text := _sentences.fake_command(report)) else []
    return [*textwrap.wrap(head + _sentences.at_peak(report), width), *body, *notices, *command]


def _by_line(report: MemoryReport, width: int) -> list[str]:
    """Return the lines that keep most, each with its source."""
    if not report.by_line:
        return ["No line keeps anything for backward at the peak."]
    total = sum(line.bytes for line in report.by_line)
    rows = ["Kept for backward at the peak, by line"]
    for line in report.by_line[:_LINES]:
        left = f"  {size(line.bytes):>10} {_share(line.bytes, total)}  "
        rows += _hanging(f"{short(line.place)}  {_sentences.kinds(line, report)}", left, width)
        if line.place is not None and line.place.source:
            under = len(left) + 2 if width - len(left) >= 24 else 6
            rows += _hanging(" ".join(line.place.source.split()), " " * under, width)
    left_out = report.by_line[_LINES:]
    if left_out:
        more = plural(len(left_out), "more line")
        rows.append(f"  {size(sum(line.bytes for line in left_out)):>10}          {more}")
    return rows


def _by_module(report: MemoryReport, width: int) -> list[str]:
    """Return a tree of modules: what each keeps with all that is inside it."""
    table = _modules.rows(report.by_module)
    if not table:
        return []
    total = sum(module.own for module in report.by_module)
    star = "; * stands for numbers" if any("*" in row.label for row in table) else ""
    rows = textwrap.wrap(f"Kept for backward at the peak, by module with what is inside it{star}", width)
    rows.append(f"  {'bytes':>10}    share  calls  module")
    for row in table:
        calls = str(row.calls) if row.calls else ""
        left = f"  {size(row.bytes):>10} {_share(row.bytes, total)}  {calls:>5}  {'  ' * row.depth}"
        rows += _hanging(row.label, left, width)
    return rows


def _share(part: int, total: int) -> str:
    return f"{100 * part / total if total else 0.0:5.1f} %"


def _hanging(text: str, left: str, width: int) -> list[str]:
    """Return a row whose text continues below itself if it is longer than the line; on a narrow terminal it
    begins below what stands left of it."""
    room = width - len(left)
    if room < 24 and left.strip():
        return [left.rstrip(), *_wrapped(text, width, left=4)]
    first, *others = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
    return [f"{left}{first}".rstrip(), *(f"{' ' * len(left)}{line}" for line in others)]


def _longest(report: MemoryReport, width: int) -> list[str]:
    """Return the largest kept tensors with their reasons, one of each kind."""
    seen: dict[tuple[object, ...], KeptStorage] = {}
    for storage in report.kept:
        role = storage.roles[0]
        if storage.at_peak and storage.kind == "activation":
            # `kept` is sorted by size, so the first one of a kind is the largest.
            seen.setdefault((role.place, role.operation, role.role), storage)
    largest = list(seen.values())[:_REASONS]
    rows = [row for storage in largest for row in _wrapped(_sentences.life(storage), width, hang=4)]
    return ["The largest, and why", *rows] if rows else []


def _savings(report: MemoryReport, width: int) -> list[str]:
    """Return the changes, largest saving first, and the curve."""
    rows = ["What would save memory"]
    if not report.changes:
        return [*rows, *_wrapped(_sentences.no_changes(report), width)]
    for number, (change, code) in enumerate(_sentences.with_code(report.changes), 1):
        rows += _wrapped(f"{number}. {_sentences.head(change)}", width, hang=5)
        rows += _wrapped(code, width, left=5)
        rows += _wrapped(_sentences.outcome(change), width, left=5)
    tried = any(change.tried for change in report.changes)
    if not tried and not report.fake and not report.ended_early:
        rows += _wrapped(
            "Predicted from the recording; --try runs the program with each and compares.", width
        )
    steps = _sentences.curve(report)
    if steps:
        rows += ["", "Peak against time, step by step" if tried else "Peak, step by step (predicted)"]
    for step in steps:
        drop = f"{100 * step.share - 100:+.0f} %" if step.share != 1 else ""
        row = f"  {size(step.bytes):>10}  {drop:>6}  {step.time:>9}  {step.what}"
        rows += textwrap.wrap(row, width, drop_whitespace=False)
    return rows


def _wrapped(text: str, width: int, left: int = 2, hang: int | None = None) -> list[str]:
    after = left if hang is None else hang
    return textwrap.wrap(
        text, width, initial_indent=" " * left, subsequent_indent=" " * after, break_long_words=False
    )
