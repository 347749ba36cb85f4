"""The hook that we offer to pre-commit, run by pre-commit itself on a repository of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TRAIN = """\
import torch

w = torch.ones(3, requires_grad=True)
y = w.exp()
y {} 1
y.sum().backward()
"""

CONFIG = """\
repos:
  - repo: {}
    rev: {}
    hooks:
      - id: unclobber-run
        args: [train.py]
"""


def execute(*command: str, cwd: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run with caches and settings of its own and this environment's commands first."""
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PRE_COMMIT_HOME": str(home),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "NO_COLOR": "1",
    }
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )


def commit(folder: Path, home: Path) -> str:
    """Make a repository of a folder; the commit."""
    person = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    for words in (("init", "-q"), ("add", "."), (*person, "commit", "-qm", "all")):
        done = execute("git", *words, cwd=folder, home=home)
        assert done.returncode == 0, done.stdout
    return execute("git", "rev-parse", "HEAD", cwd=folder, home=home).stdout.strip()


@pytest.fixture
def hook(tmp_path):
    """``hook(program)``: what pre-commit says to a repository with that program."""
    ours, home = tmp_path / "ours", tmp_path / "home"
    ours.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", ours)
    revision = commit(ours, home)

    def run(program: str, config: str = CONFIG) -> subprocess.CompletedProcess[str]:
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        (theirs / "train.py").write_text(program)
        (theirs / ".pre-commit-config.yaml").write_text(config.format(ours.as_posix(), revision))
        commit(theirs, home)
        return execute(sys.executable, "-m", "pre_commit", "run", "--all-files", cwd=theirs, home=home)

    return run


def test_a_finding_stops_the_commit(hook):
    """The story is shown, and the hook fails."""
    done = hook(TRAIN.format("+="))
    assert done.returncode == 1, done.stdout
    assert "Failed" in done.stdout
    assert "SUMMARY: UC101 saved-overwritten train.py:5 overwrites what train.py:4 saved" in done.stdout


def test_a_clean_program_passes(hook):
    """The same program without the write."""
    done = hook(TRAIN.format("= y +"))
    assert done.returncode == 0, done.stdout
    assert "Passed" in done.stdout


def test_the_check_of_changed_files(hook):
    """It is given the files, and says where backward fails without running them."""
    config = CONFIG.replace("unclobber-run\n        args: [train.py]", "unclobber-check")
    done = hook(TRAIN.format("+="), config)
    assert done.returncode == 1, done.stdout
    assert "SUMMARY: UC101 saved-overwritten train.py:5 overwrites what train.py:4 saved" in done.stdout
    assert "`unclobber run` decides" in done.stdout


def test_the_manifest_is_valid():
    """By pre-commit's own validator, which knows a wrong one."""
    from pre_commit.clientlib import InvalidManifestError, load_manifest

    run, check = load_manifest(ROOT / ".pre-commit-hooks.yaml")
    assert run["pass_filenames"] is False
    assert check["pass_filenames"] is True
    with pytest.raises(InvalidManifestError):
        load_manifest(ROOT / "constraints.txt")
