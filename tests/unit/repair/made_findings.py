"""Findings made by hand, with their places in a file."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from unclobber.model import Finding, Frame, Need, Save, Site
from unclobber.repair.project import Project


def site(path: Path, expression: str, *, line: int | None = None, callers: tuple[int, ...] = ()) -> Site:
    """The place of an expression in a file, the first one if no line is given."""
    lines = path.read_text().splitlines()
    number = line or next(n for n, code in enumerate(lines, 1) if expression in code)
    column = lines[number - 1].index(expression) + 1
    stack = tuple(Frame(str(path), n, "f", lines[n - 1].strip()) for n in (number, *callers))
    return Site(
        path=str(path),
        line=number,
        column=column,
        end_line=number,
        end_column=column + len(expression),
        function="f",
        source=expression,
        statement_line=number,
        statement_end_line=number,
        statement=lines[number - 1].strip(),
        stack=stack,
    )


def save(where: Site | None, **facts: object) -> Save:
    return Save(where, (3,), **{"dtype": "float32", "bytes": 12, "version": 0, **facts})  # type: ignore[arg-type]


def finding_in(
    folder: Path,
    code: str,
    text: str,
    *,
    freed: str,
    needed: str,
    nth: tuple[int, int],
    callers: tuple[int, ...] = (),
) -> tuple[Finding, Project]:
    """A finding about two backward calls of a program, and the project that holds it."""
    path = folder / "program.py"
    path.write_text(dedent(text).lstrip("\n"))
    first, second = (
        Need(site(path, expression, callers=callers), nth=n)
        for expression, n in zip((freed, needed), nth, strict=True)
    )
    project = Project(str(folder.resolve()), loaded=(str(path.resolve()),))
    return Finding(code, "a message", freed=first, needed=second), project


def saved_in(folder: Path, text: str, expression: str) -> tuple[Finding, Project]:
    """A finding about the result of an expression, and the project that holds it."""
    path = folder / "program.py"
    path.write_text(text)
    project = Project(str(folder.resolve()), loaded=(str(path.resolve()),))
    return Finding("UC101", "a message", saved=save(site(path, expression), role="result")), project
