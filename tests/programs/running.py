"""Find the programs of the corpus and run them through the real command."""

from __future__ import annotations

import functools
import json
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from programs import marks
from unclobber.model import Edit
from warm import OURS, python

PROGRAMS = Path(__file__).parent
TIMEOUT = 120  # seconds; most programs take a fifth of one


@dataclass(frozen=True, slots=True)
class Case:
    """A program and the truth about it."""

    path: Path
    truth: marks.Truth

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def fixed(self) -> Path:
        """The repaired twin; programs that were not found in the wild have none."""
        return self.path.with_suffix(".fixed.py")

    @property
    def family(self) -> str:
        return self.truth.facts.get("family", self.path.parent.name)

    @property
    def refused(self) -> bool:
        """Whether torch itself refuses the program."""
        return "torch" in self.truth.facts


@functools.cache
def find_cases(folder: Path = PROGRAMS) -> list[Case]:
    """All programs below a folder, by name."""
    paths = sorted(path for path in folder.glob("*/*.py") if not path.name.endswith(".fixed.py"))
    return [Case(path, marks.read(path.read_text(encoding="utf-8"), path.parent.name)) for path in paths]


def of_theme(theme: str) -> dict[str, Case]:
    """The programs of a theme, by name."""
    return {case.name: case for case in find_cases() if case.truth.facts.get("theme") == theme}


@dataclass(frozen=True, slots=True)
class Run:
    """One process, and the report where one was asked for."""

    exit_code: int
    stdout: str
    stderr: str
    report: dict[str, Any] | None = None


def run_plain(program: Path) -> Run:
    """The program under Python alone."""
    return _process([str(program)], program)


def run_reported(program: Path, first: str = OURS) -> Run:
    """The program under ``unclobber run``, with the JSON report."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.json"
        options = ["--format", "json", "--output", str(output)]
        run = _process(["-m", "unclobber", "run", *options, str(program)], program, first)
        report = json.loads(output.read_text()) if output.exists() else None
    return Run(run.exit_code, run.stdout, run.stderr, report)


def run_guarded(program: Path, first: str = OURS) -> Run:
    """The program under ``unclobber run --guard``."""
    return _process(["-m", "unclobber", "run", "--guard", str(program)], program, first)


def _process(arguments: list[str], program: Path, first: str = OURS) -> Run:
    done = python(*arguments, cwd=program.parent, timeout=TIMEOUT, first=first)
    return Run(done.returncode, done.stdout, done.stderr)


_GRADIENT = re.compile(r"^(?:grad )?(\S+) (\S+) (\S+)$")


def with_edits(text: str, edits: Iterable[Edit]) -> str:
    """A program's text with the lines of some edits replaced."""
    lines = text.split("\n")
    for edit in sorted(edits, key=lambda edit: -edit.line):
        lines[edit.line - 1 : edit.end_line] = edit.new.split("\n")
    return "\n".join(lines)


def gradients(stdout: str) -> dict[str, tuple[float, float]]:
    """The lines that a real program ends with: name, sum and absolute sum of each leaf's gradient.

    Example:
        >>> gradients("epoch 1\\nw -0.25 1.5\\n")
        {'w': (-0.25, 1.5)}
    """
    found = {}
    for line in stdout.splitlines():
        if match := _GRADIENT.match(line):
            try:
                found[match[1]] = (float(match[2]), float(match[3]))
            except ValueError:
                continue
    return found
