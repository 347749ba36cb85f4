"""A report's file is whole or not there, and where it goes is settled before the program runs."""

from __future__ import annotations

import json
import os

import pytest

from unclobber.cli._errors import UsageError
from unclobber.cli._output import OutputFile

WARM = True


def test_json_of_a_clean_run(shell):
    """A clean run is reported as such; the program's own output comes first on stdout, and a line
    on stderr says so."""
    shell.write(
        "clean.py", "import torch\nprint('loss', 1)\ntorch.ones(1, requires_grad=True).exp().backward()\n"
    )
    result = shell.unclobber("run", "--format", "json", "clean.py", "--lr", "1")
    head, _, document = result.stdout.partition("\n")
    report = json.loads(document)
    assert (result.returncode, head) == (0, "loss 1")
    assert result.stderr == (
        "unclobber: the json report follows the program's own output on standard output; "
        "--output FILE keeps them apart\n"
    )
    assert (report["outcome"], report["exit_code"], report["findings"]) == ("clean", 0, [])
    assert report["command"] == ["clean.py", "--lr", "1"]


def test_the_program_changes_directory(shell):
    """``--output`` is relative to where the command was given; a program that fails is reported as failed."""
    shell.write("moves.py", "import os; os.mkdir('d'); os.chdir('d'); raise SystemExit(3)")
    result = shell.unclobber("run", "--format", "json", "--output", "r.json", "moves.py")
    assert (result.returncode, result.stdout, result.stderr) == (3, "", "")
    assert json.loads((shell.directory / "r.json").read_text())["exit_code"] == 3
    assert sorted(p.name for p in shell.directory.iterdir()) == ["d", "moves.py", "r.json"]


def test_a_program_that_dies(shell):
    """After ``os._exit`` there is no report, and not half a one either."""
    shell.write("dies.py", "import os; os._exit(6)")
    result = shell.unclobber("run", "--format", "json", "--output", "r.json", "dies.py")
    assert result.returncode == 6
    assert sorted(p.name for p in shell.directory.iterdir()) == ["dies.py"]


def test_a_directory_that_is_gone(shell):
    """The program's own exit code wins over a report that can't be written any more."""
    shell.write("out/keep", "")
    shell.write("removes.py", "import shutil, sys; shutil.rmtree('out'); sys.exit(int(sys.argv[1]))")
    for own, expected in (("0", 2), ("5", 5)):
        (shell.directory / "out").mkdir(exist_ok=True)
        result = shell.unclobber("run", "--output", "out/report.txt", "removes.py", own)
        assert result.returncode == expected
        assert result.stderr.startswith("unclobber: the report could not be written")
        assert "Traceback" not in result.stderr


def test_closed_streams(shell):
    """A program that closes its own streams still ends as it would."""
    shell.warm = False
    shell.write("closes.py", "import sys; sys.stdout.close(); sys.stderr.close(); sys.exit(3)")
    assert shell.unclobber("run", "--format", "json", "closes.py").returncode == 3
    assert shell.unclobber("run", "--guard", "closes.py").returncode == 3


def test_the_old_report_stays_until_the_new_one_is_whole(tmp_path, monkeypatch):
    """A write that fails half-way leaves the old file and nothing else."""
    path = tmp_path / "r.json"
    path.write_text("old")
    file = OutputFile.at(str(path))
    assert path.read_text() == "old"

    def full(*_: str) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="disk full"):
            file.write("new")
    assert (path.read_text(), [p.name for p in tmp_path.iterdir()]) == ("old", ["r.json"])
    file.write("new \udc80")
    assert path.read_text() == "new \\udc80"


def test_a_device(tmp_path):
    """A device is written to, not replaced."""
    OutputFile.at(os.devnull).write("x")
    assert not os.path.isfile(os.devnull)


def test_a_link(tmp_path):
    """A link stays a link; the file that it leads to is written."""
    (tmp_path / "link").symlink_to(tmp_path / "real")
    OutputFile.at(str(tmp_path / "link")).write("x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "x"


def test_refused(tmp_path):
    """The reason is in the error."""
    with pytest.raises(UsageError, match="it is a directory"):
        OutputFile.at(str(tmp_path))
