"""The range of a place in its source file, checked against the recorded text.

A file may have changed since it was run, or be gone. A line is shown only if it still holds the text that the
Site recorded; else the Site's own text is shown.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from ..model import Extent, Site
from ..syntax import parse, text_of


@dataclass(frozen=True, slots=True)
class SourceRange:
    """A range of a source file; columns are 1-based, in characters, the end is exclusive."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int


def read_lines(path: str) -> list[str] | None:  # all reports read source here
    text = text_of(path)
    return None if text is None else [line.rstrip("\r\n") for line in text.lines]


@dataclass(slots=True)
class Sources:
    """The text of the lines that a report shows."""

    own: dict[tuple[str, int], str] = field(default_factory=dict)
    """Lines that a Site recorded itself, because the file has changed."""
    unknown: set[str] = field(default_factory=set)
    """Files whose text was not available when the program ran, so their current text is another."""

    def line(self, path: str, number: int) -> str | None:
        if (path, number) in self.own:
            return self.own[path, number]
        if path in self.unknown:
            return None
        lines = read_lines(path)
        return lines[number - 1] if lines and 0 < number <= len(lines) else None

    def locate(self, site: Site, part: Extent | None = None, *, statement: bool = False) -> SourceRange:
        """Return the range to underline.

        Args:
            part: A part of the site's expression, such as ``d`` in ``torch.matmul(d, w2)``.
            statement: Take the whole statement if the expression is its target.
        """
        span = self._expression(site)
        # The target alone, `c[1]`, would not show the written value
        # (test_a_written_target_takes_its_whole_statement in tests/unit/report/test_report_sources.py).
        if statement and _is_target(site):
            return self._statement(site) or span
        return span if part is None else _narrow(span, site, part)

    def _expression(self, site: Site) -> SourceRange:
        """Return the range of the site's expression, or of the whole recorded line."""
        # Nothing could be read when the program ran, so a file that is there now is another one.
        if not site.source and not site.statement:
            self.unknown.add(site.path)
        line = self.line(site.path, site.line)
        if site.end_line > site.line and line is not None and site.source:
            last = self.line(site.path, site.end_line)
            first_source, *_, last_source = site.source.split("\n")
            head = line[site.column - 1 :].rstrip() == first_source.rstrip()
            if last is not None and head and last[: site.end_column - 1].endswith(last_source.strip()):
                return SourceRange(site.path, site.line, site.column, site.end_line, site.end_column)
        columns = _find(line, site) if line is not None else None
        if columns is None:
            line = self._record(site)
            columns = _find(line, site) or _all_of(line)
        return SourceRange(site.path, site.line, columns[0], site.line, columns[1])

    def _record(self, site: Site) -> str:
        """Use the site's own text for its lines from now on; return its first line's."""
        # The whole statement, because other places of the finding may be on its lines.
        for i, text in enumerate(site.statement.split("\n")):
            self.own[site.path, site.statement_line + i] = text
        kept = self.own.get((site.path, site.line), "")
        if _find(kept, site) is None:
            kept = self.own[site.path, site.line] = site.source.split("\n")[0]
        if not kept:  # nothing was recorded either
            del self.own[site.path, site.line]
        return kept

    def _statement(self, site: Site) -> SourceRange | None:
        """Return the range of the whole statement; None if the file no longer holds it."""
        lines = site.statement.split("\n")
        first = self.line(site.path, site.statement_line) or ""
        last = self.line(site.path, site.statement_end_line) or ""
        head = lines[0].rstrip()
        indent = len(first) - len(first.lstrip())  # a recorded statement begins its line
        recorded = indent if site.statement_column is None else site.statement_column - 1
        start = next((at for at in (recorded, indent) if first[at:].startswith(head)), None)
        if start is None or site.statement_end_line - site.statement_line != len(lines) - 1:
            return None
        tail = lines[-1].strip()
        end = start + len(head) if len(lines) == 1 else last.find(tail) + len(tail)
        return SourceRange(site.path, site.statement_line, start + 1, site.statement_end_line, end + 1)


def _narrow(span: SourceRange, site: Site, part: Extent) -> SourceRange:
    """Return the range of a part of an expression, which may have moved within its line."""
    line, column, end_line, end_column = part
    if not site.line <= line <= end_line <= span.end_line:
        return span  # the range is the first line's only, if the expression has several
    shift = span.column - site.column
    column += shift if line == site.line else 0
    end_column += shift if end_line == site.line else 0
    return SourceRange(span.path, line, column, end_line, end_column)


def _all_of(line: str) -> tuple[int, int]:
    return len(line) - len(line.lstrip()) + 1, len(line.rstrip()) + 1  # without the indentation


def _find(line: str, site: Site) -> tuple[int, int] | None:
    """Return the columns of the site's expression: as recorded, or its only occurrence, or None."""
    statement = site.statement.split("\n")
    index = site.line - site.statement_line
    # A short expression may stand at the recorded column of another statement by chance
    # (test_the_same_expression_in_another_statement_is_a_changed_file).
    if 0 <= index < len(statement) and statement[index].strip() not in line:
        return None  # the file is no longer what ran
    source = site.source.split("\n")[0].rstrip()
    if not source:
        return _all_of(line) if line.strip() else None
    if line[site.column - 1 : site.column - 1 + len(source)] == source:
        return site.column, site.column + len(source)
    # Moved within its line, as by a formatter. Two occurrences would be a guess.
    if line.count(source) == 1:
        start = line.index(source) + 1
        return start, start + len(source)
    return None


def _is_target(site: Site) -> bool:
    """Return whether the expression is a target of its statement: ``c[1]`` in ``c[1] = 0.5``."""
    try:
        (parsed,) = parse(site.statement).body
    except (SyntaxError, ValueError):
        return False
    targets: list[ast.expr] = []
    if isinstance(parsed, ast.Assign | ast.Delete):
        targets = parsed.targets
    elif isinstance(parsed, ast.AugAssign | ast.AnnAssign):
        targets = [parsed.target]
    return any(
        ast.get_source_segment(site.statement, node) == site.source
        for target in targets
        for node in ast.walk(target)
    )
