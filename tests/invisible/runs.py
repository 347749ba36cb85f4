"""Programs run plain, watched, guarded and audited, in one process for each mode and core."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import NamedTuple

import warm

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
CORES = {"native": "1", "python": "0"}
"""By name, what chooses it."""


class Run(NamedTuple):
    """What came of a program in one mode."""

    lines: list[str]
    found: list[str]


def run(mode: str, core: str, programs: list[Path]) -> dict[str, Run]:
    """By its name, what came of each program."""
    files = map(str, programs)
    child = warm.python(str(HERE / "observed.py"), mode, CORES[core], *files, timeout=300)
    answers = [Run(**json.loads(line)) for line in child.stdout.splitlines()]
    assert child.returncode == 0, child.stderr
    return {program.stem: answer for program, answer in zip(programs, answers, strict=True)}


@functools.cache
def plain() -> dict[str, Run]:
    """What came of all of ``PROGRAMS`` with nobody looking."""
    return run("plain", "python", PROGRAMS)


@functools.cache
def observed(mode: str, core: str) -> dict[str, Run]:
    """The same in a mode, by a core."""
    return run(mode, core, PROGRAMS)


def difference(program: str, expected: Run, got: Run) -> str | None:
    """The first line that differs, or what was found although nothing is wrong; None where it is the same."""
    for before, now in zip(expected.lines, got.lines, strict=False):
        if before != now:
            return f"{program}: {before!r} is {now!r}"
    if len(expected.lines) != len(got.lines):
        return f"{program}: {len(got.lines)} lines instead of {len(expected.lines)}"
    if expected.found != got.found:
        return f"{program}: found {got.found}"
    return None
