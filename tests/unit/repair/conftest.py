"""Hand-made findings, for fixers that read more than one statement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from made_findings import save, site

from unclobber.model import Finding, Need, Write
from unclobber.repair.project import Project


@pytest.fixture
def proposed(tmp_path: Path) -> Callable[..., list[str]]:
    """``proposed(fixer, code, text, saved=…, write=…, needed=…)``: the texts that a fixer proposes for a
    finding whose places are the given expressions, or ``(expression, line)`` pairs, for ``write`` also a
    list of them. ``sure``: only those without a doubt."""

    def run(
        fixer,
        code,
        text,
        *,
        saved=None,
        write=None,
        needed=None,
        facts=None,
        write_facts=None,
        callers=(),
        variant=None,
        below=(),
        harmless=False,
        sure=False,
    ):
        path = tmp_path / "program.py"
        path.write_text(dedent(text).lstrip("\n"))

        def place(what, callers=()):
            if what is None:
                return None
            expression, line = what if isinstance(what, tuple) else (what, None)
            return site(path, expression, line=line, callers=callers)

        written = write if isinstance(write, list) else [] if write is None else [write]
        known = {"operation": "add_", "bumps_version": True, "overlaps_needed": True, **(write_facts or {})}
        writes = tuple(Write(place(w, callers), **known) for w in written)
        finding = Finding(
            code,
            "a message",
            variant=variant,
            harmless=harmless,
            saved=save(saved and replace(place(saved), below=below), **(facts or {})),
            writes=writes,
            needed=Need(place(needed)) if needed else None,
        )
        project = Project(str(tmp_path.resolve()), loaded=(str(path.resolve()),))
        proposals = [each for each in fixer(finding, project) if not (sure and each.in_doubt)]
        return [candidate.texts[str(path)] for candidate in proposals]

    return run
