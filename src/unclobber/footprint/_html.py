"""The report as one self-contained page: source on the left, time on the right.

Only the lines that keep something are embedded, with a few around them. All text goes through
Jinja's autoescape: source is private and may hold anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from ..model.text import size
from ..syntax import text_of
from . import _modules, _sentences
from ._chart import chart, lives
from ._facts import MemoryReport

_AROUND = 2
"""Source lines shown before and after each line that keeps something."""


@dataclass(frozen=True)
class SourceLine:
    """A line of source, or a gap between two ranges."""

    number: int | None
    text: str = ""
    bytes: int = 0
    share: float = 0.0
    """Its bytes over those of the line that keeps most, 0 to 1."""
    label: str = ""
    about: str = ""
    line: int | None = None
    """Position in ``MemoryReport.lines``."""


@dataclass(frozen=True)
class SourceFile:
    """The shown lines of one file."""

    path: str
    name: str
    bytes: int
    lines: tuple[SourceLine, ...]


def to_html(report: MemoryReport) -> str:
    """Return the whole page."""
    # Imported here, because reports as text and JSON need no Jinja.
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["size"] = size
    template = resources.files(__package__).joinpath("page.html.jinja").read_text(encoding="utf-8")
    steps = _sentences.curve(report)
    return environment.from_string(template).render(
        report=report,
        said=_sentences,
        files=_files(report),
        modules=_modules.rows(report.by_module),
        kept=sum(module.own for module in report.by_module),
        unplaced=[line for line in report.by_line if line.place is None],
        chart=chart(report) if report.timeline and report.peak else None,
        lives=lives(report) if report.timeline else None,
        changes=list(zip(report.changes, _sentences.code(report.changes), strict=True)),
        curve=steps,
        before=steps[0].bytes if steps else report.peak and report.peak.moment.step,
    )


def _files(report: MemoryReport) -> list[SourceFile]:
    """Return the files with lines that keep something, largest first."""
    by_path: dict[str, dict[int, int]] = {}
    for position, line in enumerate(report.by_line):
        if line.place is not None:
            by_path.setdefault(line.place.path, {})[line.place.line] = position
    most = max((line.bytes for line in report.by_line), default=0)
    files = [_file(path, marked, report, most) for path, marked in by_path.items()]
    return sorted(files, key=lambda file: -file.bytes)


def _file(path: str, marked: dict[int, int], report: MemoryReport, most: int) -> SourceFile:
    """Return the shown lines of one file: those that keep something, and `_AROUND` lines around each."""
    source = text_of(path)
    text = () if source is None else source.lines
    wanted = {
        number
        for line in marked
        for number in range(line - _AROUND, line + _AROUND + 1)
        if 1 <= number <= max(len(text), line)
    }
    shown: list[SourceLine] = []
    previous = None
    for number in sorted(wanted):
        if previous is not None and number > previous + 1:
            shown.append(SourceLine(None))
        previous = number
        content = text[number - 1].rstrip("\n") if number <= len(text) else ""
        position = marked.get(number)
        if position is None:
            shown.append(SourceLine(number, content))
            continue
        line = report.by_line[position]
        shown.append(
            SourceLine(
                number=number,
                # The file may be gone or shorter by now; the recorded expression stands in for its line.
                text=content or (line.place.source if line.place else ""),
                bytes=line.bytes,
                share=line.bytes / most if most else 0.0,
                label=size(line.bytes),
                about=_sentences.reasons(line, report),
                line=position,
            )
        )
    total = sum(report.by_line[position].bytes for position in marked.values())
    return SourceFile(path, path.replace("\\", "/").rpartition("/")[2], total, tuple(shown))
