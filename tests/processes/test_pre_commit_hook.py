"""The hook that we offer to pre-commit, run by pre-commit itself on a repository of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
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
        "VIRTUALENV_NO_DOWNLOAD": "1",
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


CHECK = CONFIG.replace("unclobber-run\n        args: [train.py]", "unclobber-check")

BACKEND = """\
import zipfile
DIST = "unclobber-0.dist-info/"
def build_wheel(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(folder + "/unclobber-0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("checkout.pth", {paths!r})
        wheel.writestr(DIST + "METADATA", "Metadata-Version: 2.1\\nName: unclobber\\nVersion: 0\\n")
        wheel.writestr(DIST + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(DIST + "entry_points.txt", "[console_scripts]\\nunclobber = unclobber.cli:main\\n")
        wheel.writestr(DIST + "RECORD", "")
    return "unclobber-0-py3-none-any.whl"
"""
"""A build backend that needs no index: its wheel leads to this checkout and this environment's packages."""


@pytest.fixture
def hook(tmp_path):
    """``hook(program)``: what pre-commit says to a repository with that program."""
    ours, home = tmp_path / "ours", tmp_path / "home"
    ours.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", ours)
    (ours / "pyproject.toml").write_text(
        '[project]\nname = "unclobber"\nversion = "0"\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    paths = f"{ROOT / 'src'}\n{sysconfig.get_path('purelib')}\n"
    (ours / "backend.py").write_text(BACKEND.format(paths=paths))
    revision = commit(ours, home)

    def run(
        program: str, config: str = CONFIG, source: str = ours.as_posix(), rev: str = revision
    ) -> subprocess.CompletedProcess[str]:
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        (theirs / "train.py").write_text(program)
        (theirs / ".pre-commit-config.yaml").write_text(config.format(source, rev))
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
    """It is given the files in an environment of pre-commit's, and says where backward fails."""
    done = hook(TRAIN.format("+="), CHECK)
    assert done.returncode == 1, done.stdout
    assert "SUMMARY: UC101 saved-overwritten train.py:5 overwrites what train.py:4 saved" in done.stdout
    assert "`unclobber run` decides" in done.stdout


@pytest.mark.sweep  # it installs from an index
def test_the_check_in_an_environment_of_its_own(hook, tmp_path):
    """Fetched from this repository at a commit and built; torch is not installed with it."""
    head = execute("git", "rev-parse", "HEAD", cwd=ROOT, home=tmp_path).stdout.strip()
    done = hook(TRAIN.format("+="), CHECK, ROOT.as_posix(), head)
    assert done.returncode == 1, done.stdout
    assert "SUMMARY: UC101 saved-overwritten train.py:5 overwrites what train.py:4 saved" in done.stdout
    installed = {path.name for path in (tmp_path / "home").glob("repo*/py_env*/lib/python*/site-packages/*")}
    assert "unclobber" in installed
    assert "torch" not in installed


def test_the_manifest_is_valid():
    """By pre-commit's own validator, which knows a wrong one."""
    from pre_commit.clientlib import InvalidManifestError, load_manifest

    run, check = load_manifest(ROOT / ".pre-commit-hooks.yaml")
    assert run["pass_filenames"] is False
    assert check["pass_filenames"] is True
    with pytest.raises(InvalidManifestError):
        load_manifest(ROOT / "constraints.txt")
