"""Each run has the program's folder for itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unclobber.repair import _copies
from unclobber.repair._copies import Filler, copy_for
from unclobber.repair.project import root_of


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
    copy = copy_for(root_of("train.py"), str(tmp_path / "home"))
    script = str(project / "train.py")
    Filler(copy).fill({script: "print(2)\n"})
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
    copy = copy_for(root_of("train.py"), str(tmp_path / "home"))
    filler = Filler(copy)
    for _ in range(2):
        filler.fill({})
        left = copy.there(str(project / "left.txt"))
        assert not os.path.exists(left)
        with open(left, "w") as stream:
            stream.write("x")
        assert left in set(copy.files())
    assert not (project / "left.txt").exists()


def _content(folder):
    """What each file, link and folder below one holds, with its modification time."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or path.is_dir():
            held = os.readlink(path) if path.is_symlink() else "a folder", 0
        else:
            held = path.read_text(), path.stat().st_mtime_ns
        found[str(path.relative_to(folder))] = held
    return found


def _keep_its_times(path):
    before = path.stat()
    path.write_text("DATA")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        lambda there: (there / "data" / "x.txt").write_text("more data"),
        lambda there: _keep_its_times(there / "data" / "x.txt"),
        lambda there: (there / "data" / "x.txt").chmod(0o600),
        lambda there: (there / "data" / "x.txt").rename(there / "data" / "y.txt"),
        lambda there: (there / "data" / "x.txt").unlink(),
        lambda there: ((there / "data").rename(there / "moved"), (there / "data").write_text("a file")),
        lambda there: ((there / "train.py").unlink(), (there / "train.py").mkdir()),
        lambda there: ((there / "link.txt").unlink(), (there / "link.txt").write_text("data")),
        lambda there: ((there / ".git").unlink(), (there / ".git").mkdir(), (there / ".git" / "x").touch()),
        lambda there: (there / "new" / "deeper").mkdir(parents=True),
        lambda there: (there / "data" / "__pycache__").mkdir(),
    ],
    ids=["written", "of the same size and time", "rights", "renamed", "deleted", "a file for a folder",
         "a folder for a file", "a file for a link", "a folder for version control", "folders", "a cache"],
)  # fmt: skip
def test_what_a_run_changed_is_undone(project, tmp_path, change):
    """A second fill gives back all that the first one made, whatever the run did to it."""
    copy = copy_for(root_of("train.py"), str(tmp_path / "home"))
    there = Path(copy.there(str(project)))
    filler = Filler(copy)
    filler.fill({})
    rights = (there / "data" / "x.txt").stat().st_mode
    made = _content(there)
    assert {"data", "data/x.txt", "link.txt", ".git", "train.py"} <= made.keys()
    change(there)
    filler.fill({})
    assert _content(there) == made
    assert (there / "data" / "x.txt").stat().st_mode == rights


def test_what_the_user_changed_is_copied(project, tmp_path):
    """A run sees the files as they are when it begins, and an edited text is gone with its run."""
    copy = copy_for(root_of("train.py"), str(tmp_path / "home"))
    there = Path(copy.there(str(project)))
    filler = Filler(copy)
    filler.fill({str(project / "train.py"): "print(2)\n"})
    (project / "data" / "x.txt").write_text("new")
    (project / "link.txt").unlink()
    filler.fill({})
    assert (there / "train.py").read_text() == "print(1)\n"
    assert (there / "data" / "x.txt").read_text() == "new"
    assert not os.path.lexists(there / "link.txt")


def test_a_file_that_no_run_touched_is_not_copied_again(project, tmp_path):
    """The copy of an untouched file is the same file in the next run."""
    copy = copy_for(root_of("train.py"), str(tmp_path / "home"))
    there = Path(copy.there(str(project)))
    filler = Filler(copy)
    filler.fill({})
    before = {name: os.lstat(there / name).st_ino for name in ("train.py", "data/x.txt", "link.txt", "env")}
    filler.fill({})
    assert {name: os.lstat(there / name).st_ino for name in before} == before


@pytest.mark.parametrize("limit", ["MOST_BYTES", "MOST_FILES"])
def test_a_folder_that_is_too_large(project, tmp_path, monkeypatch, limit):
    """It is not copied."""
    monkeypatch.setattr(_copies, limit, 1)
    assert copy_for(root_of("train.py"), str(tmp_path / "home")).pairs == ()


def test_a_working_directory_above(project, tmp_path, monkeypatch):
    """It is what is copied: the program may write there."""
    monkeypatch.chdir(tmp_path)
    copy = copy_for(root_of("project/train.py"), str(tmp_path.parent / "home"))
    assert [folder for folder, _ in copy.pairs] == [str(tmp_path)]
