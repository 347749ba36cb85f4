"""Whether a script that ``fix`` has written does what it should to its end: what it prints and writes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import warm
from grammar.training import Script
from unclobber.repair import rounds as _rounds
from unclobber.repair.outcome import Clean, Proved, Unproved
from unclobber.repair.project import Project
from unclobber.repair.proof import Runner

RIGHT, DIFFERENT, UNFIXED, UNFIT = "right", "different", "not fixed", "unfit"
_GUARDED = """\
import runpy
import sys

import unclobber

with unclobber.guard():
    runpy.run_path(sys.argv[1], run_name="__main__")
"""


@dataclass(frozen=True)
class Verdict:
    """What ``fix`` made of a script."""

    result: str
    """``right``; ``different``: proved, and it does something else than it should; ``not fixed``; ``unfit``:
    the script itself is no test, for nothing is found or it can't be run to its end as it is meant."""
    detail: str = ""
    found: bool = True
    to_end: bool = False
    """Whether the proof says that it goes to the end."""


@dataclass(frozen=True)
class Done:
    """A plain run: all that it leaves."""

    code: int
    out: str
    files: tuple[tuple[str, str], ...]
    err: str

    @property
    def told(self) -> tuple[object, ...]:
        return self.code, self.out, self.files


@dataclass(frozen=True)
class Desk:
    """A folder in which one script after the other lies, and the driver that runs them."""

    folder: Path
    runner: Runner

    @property
    def path(self) -> Path:
        return self.folder / "train.py"


@contextmanager
def desk(folder: Path, driver: Runner | None = None) -> Iterator[Desk]:
    """A project of its own, with one driver for all scripts: starting one takes seconds."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").touch()
    with contextlib.chdir(folder), contextlib.nullcontext(driver) if driver else Runner(60.0) as runner:
        yield Desk(folder, runner)


def check(script: Script, at: Desk) -> Verdict:
    """``fix --all --write`` on a script, then its whole output beside what it should be."""
    truth = run(at, script.text, guarded=True) if script.twin is None else run(at, script.twin)
    if truth.code != 0:
        return Verdict(UNFIT, f"the truth fails: {_last(truth.err)}")
    at.path.write_text(script.text)
    rounds = _rounds.fix("train.py", runner=at.runner, fix_all=True)
    return judged(script, rounds, truth, at)


def judged(script: Script, rounds: _rounds.Rounds, truth: Done, at: Desk) -> Verdict:
    """What some rounds of repairs are worth, written and run plainly."""
    first, last = rounds.outcomes[0], rounds.last
    if not isinstance(first, (Proved, Unproved)):
        return Verdict(UNFIT, f"nothing is found: {getattr(first, 'reason', 'clean')}", found=False)
    if first.finding.code != script.family:
        return Verdict(UNFIT, f"{first.finding.code} is found first")
    titles = "; ".join(" + ".join(outcome.best.titles) for outcome in rounds.proved)
    if not isinstance(last, Clean):
        reason = getattr(last, "reason", "")
        return Verdict(UNFIXED, f"{reason}{f' (after {titles})' if titles else ''}")
    at.path.write_text(script.text)
    project = Project(str(at.folder))
    project.encoded(str(at.path))
    project.write(rounds.project.overlay)
    done = run(at, at.path.read_text())
    to_end = all(outcome.best.proof is not None and outcome.best.proof.to_end for outcome in rounds.proved)
    if done.told != truth.told:
        return Verdict(DIFFERENT, f"{titles}: {_difference(truth, done)}", to_end=to_end)
    return Verdict(RIGHT, titles, to_end=to_end)


def run(at: Desk, text: str, *, guarded: bool = False) -> Done:
    """Run a script as it is, or under ``guard``."""
    for name in os.listdir(at.folder):
        if name != "pyproject.toml" and (at.folder / name).is_file():
            (at.folder / name).unlink()
    at.path.write_text(text)
    if guarded:
        (at.folder / "guarded.py").write_text(_GUARDED)
        done = warm.python("guarded.py", "train.py", cwd=at.folder, timeout=60, first=warm.OURS)
    else:
        done = warm.python("train.py", cwd=at.folder, timeout=60)
    left = [path for path in sorted(at.folder.iterdir()) if path.is_file() and path.suffix == ".txt"]
    return Done(
        done.returncode, done.stdout, tuple((path.name, path.read_text()) for path in left), done.stderr
    )


def _difference(truth: Done, done: Done) -> str:
    if done.code != truth.code:
        return f"it fails: {_last(done.err)}"
    if done.out != truth.out:
        pairs = zip(truth.out.splitlines(), done.out.splitlines(), strict=False)
        return next((f"prints {b!r} for {a!r}" for a, b in pairs if a != b), "prints more or less")
    return "writes other files"


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:200]
