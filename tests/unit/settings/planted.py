"""Findings at places of files that a test has written, without running them."""

from __future__ import annotations

from pathlib import Path

from unclobber.model import Finding, Save, Site, Write


def at(path: Path, text: str, *, function: str = "<module>") -> Site:
    """The whole line of a file that holds a text."""
    lines = path.read_text(encoding="utf-8").split("\n")
    line = next(number for number, content in enumerate(lines, 1) if text in content)
    statement = lines[line - 1].partition("#")[0].strip()
    return Site(
        path=str(path), line=line, column=1, end_line=line, end_column=1 + len(statement), function=function,
        source=statement, statement_line=line, statement_end_line=line, statement=statement,
    )  # fmt: skip


def silent(
    path: Path, *writes: str, saved: str = "exp()", code: str = "UC102", function: str = "<module>"
) -> Finding:
    """A finding of which torch says nothing: what was saved at one line was overwritten at others."""
    return Finding(
        code,
        "`y` was overwritten",
        saved=Save(site=at(path, saved, function=function), shape=(3,), dtype="float32", bytes=12, version=0),
        writes=tuple(
            Write(at(path, text, function=function), "zero_", bumps_version=False, overlaps_needed=True)
            for text in writes
        ),
    )
