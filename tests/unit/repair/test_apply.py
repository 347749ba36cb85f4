"""Writing to the user's files: all or nothing, and nothing but the edit."""

from __future__ import annotations

import os
import stat
import subprocess

import pytest

from unclobber.repair import project as user_files
from unclobber.repair._diff import changed_lines
from unclobber.repair._text import decode
from unclobber.repair.project import ApplyError, Project, root_of


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    return Project(str(tmp_path.resolve()))


def _write(project, path, new):
    project.encoded(str(path))  # whose content is what the edit was made for
    project.write({str(path): new})


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"x = 1\r\ny = 2\r\n", id="dos newlines"),
        pytest.param(b"\xef\xbb\xbfx = 1\n", id="byte order mark"),
        pytest.param(b"# -*- coding: latin-1 -*-\nx = 1  # \xe9\n", id="latin-1"),
        pytest.param(b"x = 1", id="no newline at the end"),
        pytest.param(b"x = 1\n\x0cy = 2\r\nz = 3\n", id="form feed and mixed newlines"),
    ],
)
def test_everything_but_the_edit_stays(project, tmp_path, data):
    """Encoding, mark and newlines are the file's own."""
    path = tmp_path / "a.py"
    path.write_bytes(data)
    text = project.text(str(path))
    _write(project, path, text.replace("x = 1", "x = 10"))
    assert path.read_bytes() == data.replace(b"x = 1", b"x = 10")


def test_permissions_and_links_stay(project, tmp_path):
    """A script stays executable, and a link to it a link."""
    path, link = tmp_path / "a.py", tmp_path / "b.py"
    path.write_text("x = 1\n")
    path.chmod(0o750)
    link.symlink_to(path)
    _write(project, link, "x = 2\n")
    assert link.is_symlink()
    assert path.read_text() == "x = 2\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.py", "b.py", "pyproject.toml"]


def test_a_file_that_has_changed_is_left(project, tmp_path):
    """The proof was for another text."""
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    project.encoded(str(path))
    path.write_text("x = 3\n")
    with pytest.raises(ApplyError, match="has changed since"):
        project.write({str(path): "x = 2\n"})
    assert path.read_text() == "x = 3\n"


def test_of_two_files_none_is_written_where_one_cant_be(project, tmp_path):
    """Half an edit would be worse than none."""
    one, other = tmp_path / "a.py", tmp_path / "b.py"
    one.write_text("x = 1\n")
    other.write_text("y = 1\n")
    for path in (one, other):
        project.encoded(str(path))
    other.write_text("y = 3\n")
    with pytest.raises(ApplyError):
        project.write({str(one): "x = 2\n", str(other): "y = 2\n"})
    assert one.read_text() == "x = 1\n"


def test_an_unwritable_file_leaves_the_others(project, tmp_path):
    """Everything is staged before anything is replaced."""
    one, other = tmp_path / "a.py", tmp_path / "b.py"
    one.write_text("x = 1\n")
    other.write_text("y = 1\n")
    for path in (one, other):
        project.encoded(str(path))
    stage = user_files._stage

    def refusing(path, data):
        if path.endswith("b.py"):
            raise PermissionError(13, "read-only")
        return stage(path, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_files, "_stage", refusing)
        with pytest.raises(ApplyError, match="read-only"):
            project.write({str(one): "x = 2\n", str(other): "y = 2\n"})
    assert one.read_text() == "x = 1\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.py", "b.py", "pyproject.toml"]


def test_outside_the_project_nothing_is_written(tmp_path):
    """Neither by a path nor by a link that leads out."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "setup.py").touch()
    target = outside / "a.py"
    target.write_text("x = 1\n")
    (inside / "a.py").symlink_to(target)
    project = Project(str(inside.resolve()))
    for path in (target, inside / "a.py"):
        assert project.text(str(path)) is None
        with pytest.raises(ApplyError, match="not a file of the project"):
            project.write({str(path): "x = 2\n"})
    assert target.read_text() == "x = 1\n"


def test_installed_packages_are_not_the_projects(tmp_path):
    """A virtual environment may lie inside the project."""
    path = tmp_path / "venv" / "lib" / "site-packages" / "a.py"
    path.parent.mkdir(parents=True)
    path.write_text("x = 1\n")
    assert Project(str(tmp_path.resolve())).text(str(path)) is None


def test_a_character_that_the_file_cant_hold(project, tmp_path):
    """Said, not replaced."""
    path = tmp_path / "a.py"
    path.write_bytes(b"# -*- coding: ascii -*-\nx = 1\n")
    with pytest.raises(ApplyError, match="ascii"):
        _write(project, path, "# -*- coding: ascii -*-\nx = 'ß'\n")


def test_the_root_is_the_nearest_project(tmp_path):
    """A marker above the script, else the script's own folder."""
    script = tmp_path / "a" / "b" / "train.py"
    script.parent.mkdir(parents=True)
    script.touch()
    (tmp_path / "a" / "pyproject.toml").touch()
    assert root_of(str(script)) == str((tmp_path / "a").resolve())


@pytest.mark.parametrize("data", [b"# coding: no-such\n", b"x = '\xff'\n"])
def test_undecodable(data):
    """No guess at what the bytes mean."""
    assert decode(data) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("a\nb\nc\n", "a\nB\nc\n", id="plain"),
        pytest.param("a\nb", "a\nB", id="no newline at the end"),
        pytest.param("a\r\nb\r\n", "a\r\nB\r\n", id="dos newlines"),
        pytest.param("a\n\x0cb\x0b\n", "a\n\x0cB\x0b\n", id="other separators"),
        pytest.param("\ufeffa\nb\n", "\ufeffa\nB\n", id="byte order mark"),
    ],
)
@pytest.mark.parametrize("tool", [["patch", "-p0", "-s", "--binary"], ["git", "apply", "-p0"]])
def test_the_diff_applies(project, tmp_path, old, new, tool, monkeypatch):
    """What is printed is what would be written, to both tools."""
    path = tmp_path / "sub" / "a.py"
    path.parent.mkdir()
    path.write_bytes(old.encode())
    monkeypatch.chdir(tmp_path)
    diff = project.diff({str(path): new.removeprefix("\ufeff")})
    (tmp_path / "fix.diff").write_bytes(diff.encode())
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    with open(tmp_path / "fix.diff", "rb") as stream:
        subprocess.run(tool, stdin=stream, cwd=tmp_path, check=True, env=environment, timeout=30)
    assert path.read_bytes() == new.encode()


@pytest.mark.parametrize(
    ("old", "new", "count"), [("a\n", "a\n", 0), ("a\n", "b\n", 1), ("a\n", "b\na\n", 1)]
)
def test_changed_lines(old, new, count):
    """The longer side of each stretch."""
    assert changed_lines(old, new) == count


@pytest.mark.parametrize(
    "data", [b"x = 1\r\ny = 2\r\n", b"x = 1", b"y = 2\nx = 1"], ids=["dos", "one", "end"]
)
def test_git_applies_the_diff(project, tmp_path, data, monkeypatch):
    """Line ends and a missing last newline are the file's own."""
    path = tmp_path / "a.py"
    path.write_bytes(data)
    text = project.text(str(path)).replace("x = 1", "x = 10")
    monkeypatch.chdir(tmp_path)
    diff = project.diff({str(path): text})
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply", "-p0", "-"], input=diff.encode(), cwd=tmp_path, check=True)
    assert path.read_bytes() == data.replace(b"x = 1", b"x = 10")
