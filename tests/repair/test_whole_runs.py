"""A fixed script prints to its end what the guarded original prints."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import warm
from unclobber.repair import rounds as _rounds
from unclobber.repair.outcome import Proved
from unclobber.repair.proof import Runner

PROGRAMS = Path(__file__).parent / "whole_runs"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py") if not path.stem.endswith(".right"))
QUICK = ("adapted_weights", "filled_workspace", "half_precision", "old_name", "penalty_beside", "yielded")


def _check(name: str, folder: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "pyproject.toml").touch()
    shutil.copy(PROGRAMS / f"{name}.py", "train.py")
    rounds = _rounds.fix("train.py", runner=runner, first_only=True)
    last = rounds.last
    assert isinstance(last, Proved), last
    assert last.best.proof is not None
    assert last.best.proof.verified == "whole-run"
    (text,) = rounds.project.overlay.values()
    (folder / "train.py").write_text(text)
    right = PROGRAMS / f"{name}.right.py"
    if right.exists():
        expected = warm.python(str(right), cwd=folder)
    else:
        expected = warm.unclobber("run", "--guard", "--exit-zero", str(PROGRAMS / f"{name}.py"), cwd=folder)
    found = warm.python("train.py", cwd=folder)
    assert (found.returncode, found.stdout) == (0, expected.stdout), f"{last.best.titles}\n{found.stderr}"


@pytest.mark.parametrize("name", QUICK)
def test_sampled(name, tmp_path, driver, monkeypatch):
    """An inner step, shared memory, a dtype, an old name, what stands beside the write, a generator."""
    _check(name, tmp_path, driver, monkeypatch)


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
def test_all(name, tmp_path, driver, monkeypatch):
    """Each of them."""
    _check(name, tmp_path, driver, monkeypatch)
