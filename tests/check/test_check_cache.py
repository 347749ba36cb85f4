"""The cache of ``unclobber check``: it saves time and never changes a result."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from unclobber.cli import main
from unclobber.static import check_files, files

WRONG = "import torch\nw = torch.ones(3, requires_grad=True)\ny = w.exp()\ny += 1\ny.sum().backward()\n"
RIGHT = WRONG.replace("y += 1", "y = y + 1")


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """``checked(*options)``: the exit code of a check of the folder, and the files that were followed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "right.py").write_text(RIGHT)

    def check(*options):
        followed = []
        whole = files.check_file

        def noting(path, *given, **more):
            if more.get("text") is None:  # it is given for what an edit would make of a file
                followed.append(os.path.basename(path))
            return whole(path, *given, **more)

        with monkeypatch.context() as patched:
            patched.setattr(files, "check_file", noting)
            return main(["check", *(options or ["."])]), followed

    return check


def test_an_unchanged_file_is_followed_once(checked):
    """The second check follows no file; with ``--no-cache``, named or with other rules it does."""
    assert checked() == (0, ["right.py"])
    assert checked() == (0, [])
    assert checked(".", "--no-cache") == (0, ["right.py"])
    assert checked("right.py") == (0, ["right.py"])
    assert checked(".", "--all") == (0, ["right.py"])
    assert checked(".", "--all") == (0, [])


def test_the_report_of_a_hit_counts_its_lines(checked, capsys):
    """A hit counts as a checked file."""
    checked()
    first = capsys.readouterr().out
    checked()
    assert capsys.readouterr().out == first == "no findings in 1 file (5 lines)\n"


def test_an_edited_file_is_followed_again(checked, tmp_path):
    """A finding is never kept, so it is reported each time; after its repair the file is kept again."""
    checked()
    (tmp_path / "right.py").write_text(WRONG)
    assert checked() == checked() == (1, ["right.py"])
    (tmp_path / "right.py").write_text(RIGHT)
    assert checked() == (0, ["right.py"])
    assert checked() == (0, [])


def test_a_comment_that_suppresses_nothing_is_told_of_a_hit(checked, tmp_path, capsys):
    """The comments of a file are read at a hit, too."""
    (tmp_path / "right.py").write_text(RIGHT.replace("y + 1", "y + 1  # unclobber: ignore[UC101]"))
    checked()
    first = capsys.readouterr().out
    checked()
    assert capsys.readouterr().out == first
    assert "right.py:4" in first


@pytest.mark.parametrize("text", ["", "{", "[]", '{"engine": 1}', "null", "\udcff"], ids=repr)
def test_a_broken_cache_is_replaced(checked, tmp_path, text):
    """Whatever stands in the file, the check is a whole one and writes it anew."""
    checked()
    kept = tmp_path / ".unclobber_cache/check.json"
    kept.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert checked() == (0, ["right.py"])
    assert list(json.loads(kept.read_text())["files"]) == [os.path.join("..", "right.py")]


def test_a_broken_entry_is_ignored(checked, tmp_path):
    """An entry of another form is none."""
    checked()
    kept = tmp_path / ".unclobber_cache/check.json"
    document = json.loads(kept.read_text())
    for wrong in (None, [], ["x"], {}, 3, ["x", "y", [], {}]):
        document["files"] = dict.fromkeys(document["files"], wrong)
        kept.write_text(json.dumps(document))
        assert checked() == (0, ["right.py"])


def test_another_unclobber_follows_again(checked, tmp_path):
    """Entries of another version count for nothing."""
    checked()
    kept = tmp_path / ".unclobber_cache/check.json"
    kept.write_text(kept.read_text().replace('"engine": "', '"engine": "0'))
    assert checked() == (0, ["right.py"])


def test_a_change_of_a_file_that_was_read_counts(tmp_path, monkeypatch):
    """A result that depends on another file lasts only as long as that file."""
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text(RIGHT)
    other.write_text(RIGHT)
    followed = []

    def check_file(path, *_, **__):
        followed.append(path)
        return files.CheckedFile(path, 5, read=(str(other),))

    monkeypatch.setattr(files, "check_file", check_file)
    for text in (RIGHT, RIGHT, WRONG):
        other.write_text(text)
        check_files([str(one)], cache=str(tmp_path / "cache"))
    assert followed == [str(one)] * 2


def test_a_new_file_that_an_import_finds_counts(checked, tmp_path):
    """A result also lasts only as long as no file is where an import found none."""
    using = WRONG.replace("y += 1", "change(y)")
    (tmp_path / "right.py").write_text(f"from helper import change\n{using}")
    assert checked() == (0, ["right.py"])
    assert checked() == (0, [])
    (tmp_path / "helper.py").write_text("import torch\ndef change(y):\n    y += 1\n")
    assert checked() == (1, ["helper.py", "right.py"])


def test_the_folder_is_ignored_by_version_control_and_backups(checked, tmp_path):
    """As the folders of ruff and mypy are; no temporary file stays."""
    checked()
    folder = tmp_path / ".unclobber_cache"
    assert sorted(path.name for path in folder.iterdir()) == [".gitignore", "CACHEDIR.TAG", "check.json"]
    assert (folder / ".gitignore").read_text() == "*\n"
    assert (folder / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_the_settings_name_the_folder(checked, tmp_path):
    """``cache-dir`` starts at the settings file's folder."""
    (tmp_path / "pyproject.toml").write_text('[tool.unclobber]\ncache-dir = "kept/here"\n')
    assert [checked() for _ in range(2)] == [(0, ["right.py"]), (0, [])]
    assert (tmp_path / "kept/here/check.json").exists()
    assert not (tmp_path / ".unclobber_cache").exists()


def test_a_folder_that_cannot_be_written_does_no_harm(checked, tmp_path):
    """Without a place there is no cache, and nothing is said."""
    (tmp_path / "pyproject.toml").write_text('[tool.unclobber]\ncache-dir = "right.py/below"\n')
    assert checked() == checked() == (0, ["right.py"])
    (tmp_path / "pyproject.toml").write_text('[tool.unclobber]\ncache-dir = "shut"\n')
    (tmp_path / "shut").mkdir(mode=0o500)
    if not os.access(tmp_path / "shut", os.W_OK):  # root may write anywhere
        assert checked() == checked() == (0, ["right.py"])
        assert list((tmp_path / "shut").iterdir()) == []


def test_standard_input_is_not_kept(tmp_path, monkeypatch):
    """An editor's text changes with each key."""
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "unclobber", "check", "-"]
    subprocess.run(command, input=RIGHT, text=True, check=True, capture_output=True, timeout=60)
    assert list(tmp_path.iterdir()) == []


def test_processes_share_a_folder(checked, tmp_path):
    """Four checks at once end as one alone, and leave a whole file."""
    for number in range(30):
        (tmp_path / f"more{number}.py").write_text(RIGHT)
    command = [sys.executable, "-m", "unclobber", "check", "--jobs", "1", "."]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert {each.communicate(timeout=60)[0] for each in running} == {"no findings in 31 files (155 lines)\n"}
    assert checked() == (0, [])
    assert len(json.loads((tmp_path / ".unclobber_cache/check.json").read_text())["files"]) == 31


def test_entries_of_files_that_are_gone_leave(checked, tmp_path):
    """The file doesn't grow with each renaming."""
    checked()
    (tmp_path / "right.py").rename(tmp_path / "renamed.py")
    checked()
    entries = json.loads((tmp_path / ".unclobber_cache/check.json").read_text())["files"]
    assert [os.path.basename(name) for name in entries] == ["renamed.py"]
