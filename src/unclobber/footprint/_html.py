"""The report as one self-contained page: source on the left, time on the right.

Only the lines that keep something are embedded, with a few around them. All text goes through
Jinja's autoescape: source is private and may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

from ..model import cell_name, shown_name
from ..model.text import size
from ..syntax import text_of
from . import _modules, _sentences
from ._chart import Chart, lives
from ._facts import MemoryReport

_AROUND = 2  # source lines shown before and after each line that keeps something


@dataclass(frozen=True)
class SourceFile:
    """The shown lines of one file."""

    path: str
    name: str
    bytes: int
    lines: list[tuple[int | None, str, int | None]]
    """1-based number, text, and position in ``MemoryReport.by_line``; without a number, a gap."""


def to_html(report: MemoryReport) -> str:
    """Return the whole page."""
    # Imported here, because reports as text and JSON need no Jinja.
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["size"] = size
    template = resources.files(__package__).joinpath("page.html.jinja").read_text(encoding="utf-8")
    steps = _sentences.curve(report)
    shown, left_out = lives(report)
    return environment.from_string(template).render(
        report=report,
        said=_sentences,
        files=_files(report),
        modules=_modules.rows(report.by_module),
        kept=sum(module.own for module in report.by_module),
        most=max((line.bytes for line in report.by_line), default=0),
        unplaced=[line for line in report.by_line if line.place is None],
        chart=Chart(report) if report.timeline and report.peak else None,
        lives=shown,
        left_out=left_out,
        largest=max((storage.bytes for _, storage in shown), default=0),
        changes=_sentences.with_code(report.changes),
        curve=steps,
        before=steps[0].bytes if steps else report.peak and report.peak.moment.step,
    )


def _files(report: MemoryReport) -> list[SourceFile]:
    """Return the files with lines that keep something, largest first."""
    by_path: dict[str, dict[int, int]] = {}
    for position, line in enumerate(report.by_line):
        if line.place is not None:
            by_path.setdefault(line.place.path, {})[line.place.line] = position
    files = [
        SourceFile(
            cell_name(path) or path,
            shown_name(path),
            sum(report.by_line[position].bytes for position in marked.values()),
            list(_shown(path, marked, report)),
        )
        for path, marked in by_path.items()
    ]
    return sorted(files, key=lambda file: -file.bytes)


def _shown(
    path: str, marked: dict[int, int], report: MemoryReport
) -> Iterator[tuple[int | None, str, int | None]]:
    """Yield the lines of one file that keep something, and `_AROUND` lines around each."""
    source = text_of(path)
    text = () if source is None else source.lines
    wanted = {
        number
        for line in marked
        for number in range(line - _AROUND, line + _AROUND + 1)
        if 1 <= number <= max(len(text), line)
    }
    for number in sorted(wanted):
        if number > min(wanted) and number - 1 not in wanted:
            yield None, "", None
        content = text[number - 1].rstrip("\n") if number <= len(text) else ""
        place = report.by_line[marked[number]].place if number in marked else None
        # The file may be gone or shorter by now; the recorded expression stands in for its line.
        yield number, content or (place.source if place else ""), marked.get(number)
