"""Find the cases and run them through the real command."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warm

PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT = 120  # seconds; a case takes about two


@dataclass(frozen=True, slots=True)
class Case:
    """A failing program, its repaired twin and the truth about it."""

    path: Path
    truth: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def fixed(self) -> Path:
        return self.path.with_suffix(".fixed.py")

    @property
    def family(self) -> str:
        return str(self.truth["family"])


def find_cases(folder: Path = PROGRAMS) -> list[Case]:
    """All cases below a folder, by name."""
    truths = sorted(folder.rglob("*.json"))
    return [Case(path.with_suffix(".py"), json.loads(path.read_text())) for path in truths]


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


def run_reported(program: Path) -> Run:
    """The program under ``unclobber run``, with the JSON report."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.json"
        options = ["--format", "json", "--output", str(output)]
        run = _process(["-m", "unclobber", "run", *options, str(program)], program)
        report = json.loads(output.read_text()) if output.exists() else None
    return Run(run.exit_code, run.stdout, run.stderr, report)


def run_guarded(program: Path) -> Run:
    """The program under ``unclobber run --guard``."""
    return _process(["-m", "unclobber", "run", "--guard", str(program)], program)


def _process(arguments: list[str], program: Path) -> Run:
    done = warm.python(*arguments, cwd=program.parent, timeout=TIMEOUT)
    return Run(done.returncode, done.stdout, done.stderr)


_GRADIENT = re.compile(r"^(?:grad )?(\S+) (\S+) (\S+)$")


def gradients(stdout: str) -> dict[str, tuple[float, float]]:
    """The lines that every case ends with: name, sum and absolute sum of each leaf's gradient.

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
