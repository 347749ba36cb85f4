"""Hand-made findings, for cures that read more than one statement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from unclobber.model import Finding, Frame, Need, Save, Site, Write
from unclobber.repair._project import Project


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
    return Save(where, (3,), "float32", 12, 0, **facts)  # type: ignore[arg-type]


@pytest.fixture
def proposed(tmp_path: Path) -> Callable[..., list[str]]:
    """``proposed(cure, code, text, saved=…, write=…, needed=…)``: the texts that a cure proposes for a
    finding whose places are the given expressions, or ``(expression, line)`` pairs."""

    def run(
        cure, code, text, *, saved=None, write=None, needed=None, facts=None, write_facts=None, callers=()
    ):
        path = tmp_path / "program.py"
        path.write_text(dedent(text).lstrip("\n"))

        def place(what, callers=()):
            if what is None:
                return None
            expression, line = what if isinstance(what, tuple) else (what, None)
            return site(path, expression, line=line, callers=callers)

        writes = ()
        if write is not None:
            writes = (Write(place(write, callers), "add_", True, True, **(write_facts or {})),)
        finding = Finding(
            code,
            "a message",
            saved=save(place(saved), **(facts or {})),
            writes=writes,
            needed=Need(place(needed)) if needed else None,
        )
        project = Project(str(tmp_path.resolve()), loaded=(str(path.resolve()),))
        return [proposal.texts[str(path)] for proposal in cure(finding, project)]

    return run
