"""Each run has the program's folder for itself."""

from __future__ import annotations

import os

import pytest

from unclobber.repair import _copies
from unclobber.repair._copies import copy_for


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a script, data, a link, caches and version control, as the working directory."""
    folder = tmp_path / "project"
    for name in ("data", ".git", "__pycache__", "env"):
        (folder / name).mkdir(parents=True)
    (folder / "env" / "pyvenv.cfg").touch()
    (folder / "train.py").write_text("print(1)\n")
    (folder / "data" / "x.txt").write_text("data")
    (folder / "link.txt").symlink_to("data/x.txt")
    monkeypatch.chdir(folder)
    return folder


def test_what_is_copied(project, tmp_path):
    """Files and links; environments and version control are linked, caches left out; edits laid over."""
    copy = copy_for("train.py", str(tmp_path / "home"))
    script = str(project / "train.py")
    copy.fill({script: "print(2)\n"})
    there = copy.there(str(project))
    assert sorted(os.listdir(there)) == [".git", "data", "env", "link.txt", "train.py"]
    assert os.path.islink(os.path.join(there, "env"))
    with open(copy.there(script)) as stream:
        assert stream.read() == "print(2)\n"
    assert (project / "train.py").read_text() == "print(1)\n"
    assert copy.here(copy.there(script)) == script
    assert copy.there("/elsewhere/train.py") == "/elsewhere/train.py"


def test_each_run_begins_afresh(project, tmp_path):
    """What a run wrote is gone, at the same path, and never in the user's folder."""
    copy = copy_for("train.py", str(tmp_path / "home"))
    for _ in range(2):
        copy.fill({})
        left = copy.there(str(project / "left.txt"))
        assert not os.path.exists(left)
        with open(left, "w") as stream:
            stream.write("x")
        assert left in set(copy.files())
    assert not (project / "left.txt").exists()


@pytest.mark.parametrize("limit", ["MOST_BYTES", "MOST_FILES"])
def test_a_folder_that_is_too_large(project, tmp_path, monkeypatch, limit):
    """It is not copied."""
    monkeypatch.setattr(_copies, limit, 1)
    assert copy_for("train.py", str(tmp_path / "home")).pairs == ()


def test_a_working_directory_above(project, tmp_path, monkeypatch):
    """It is what is copied: the program may write there."""
    monkeypatch.chdir(tmp_path)
    copy = copy_for("project/train.py", str(tmp_path.parent / "home"))
    assert [folder for folder, _ in copy.pairs] == [str(tmp_path)]
