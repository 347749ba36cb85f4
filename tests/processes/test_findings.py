"""What ``unclobber run`` says and exits with when a program overwrites what backward needs."""

from __future__ import annotations

import json

import pytest

WARM = True

BROKEN = """\
    import torch
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    y.add_(1)
    {backward}
    print("after", w.grad)
"""
SILENT = """\
    import torch
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    y.data.zero_()
    y.sum().backward()
    print("after", w.grad.sum().item())
"""
SUMMARY = "SUMMARY: UC101 saved-overwritten {0}:4 overwrites what {0}:3 saved"
CAUGHT = "\n    ".join(["try:", "    y.sum().backward()", "except RuntimeError:", "    print('caught')"])


@pytest.fixture
def broken(shell):
    """A program that dies of torch's error, one that catches it, one that torch lets go on."""
    shell.write("dies.py", BROKEN.format(backward="y.sum().backward()"))
    shell.write("catches.py", BROKEN.format(backward=CAUGHT))
    shell.write("exits.py", BROKEN.format(backward=CAUGHT + "\n    raise SystemExit(7)"))
    shell.write("fails.py", BROKEN.format(backward=CAUGHT + "\n    1 / 0"))
    shell.write("silent.py", SILENT)
    return shell


def last(text: str) -> str:
    return text.splitlines()[-1]


def test_a_program_that_dies(broken):
    """The story stands in for the traceback; the exit code is torch's, 1."""
    assert broken.python("dies.py").returncode == 1
    result = broken.unclobber("run", "dies.py")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("error[UC101] saved-overwritten: ")
    assert "Traceback" not in result.stderr
    assert result.stderr.count("error[UC101]") == 1
    assert last(result.stderr) == SUMMARY.format("dies.py")


def test_a_program_that_catches(broken):
    """It runs on; the finding is told at its end."""
    result = broken.unclobber("run", "catches.py")
    assert (result.returncode, result.stdout) == (1, "caught\nafter None\n")
    assert last(result.stderr) == SUMMARY.format("catches.py")


@pytest.mark.parametrize("name", ["dies.py", "catches.py"])
def test_exit_zero(broken, name):
    """``--exit-zero`` changes the code and nothing else."""
    result = broken.unclobber("run", "--exit-zero", name)
    assert result.returncode == 0
    assert last(result.stderr) == SUMMARY.format(name)


def test_own_exit_code(broken):
    """A program's own code stays, with and without ``--exit-zero``."""
    for options in ([], ["--exit-zero"]):
        result = broken.unclobber("run", *options, "exits.py")
        assert result.returncode == 7
        assert last(result.stderr) == SUMMARY.format("exits.py")


def test_own_failure(broken):
    """Its own traceback comes first, then what was found until then."""
    result = broken.unclobber("run", "--exit-zero", "fails.py")
    assert result.returncode == 1
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    trace, _, story = result.stderr.partition("ZeroDivisionError: division by zero\n")
    assert "unclobber/" not in trace
    assert story.startswith("error[UC101]")
    assert last(story) == SUMMARY.format("fails.py")


def test_silent(broken):
    """A write that torch doesn't see: the program's output is as torch makes it, the finding at the end."""
    plain = broken.python("silent.py")
    result = broken.unclobber("run", "silent.py")
    assert (result.returncode, result.stdout) == (1, plain.stdout)
    assert last(result.stderr).startswith("SUMMARY: UC102 saved-overwritten-silently silent.py:4 ")
    assert "SilentWriteWarning" not in result.stderr


def test_strict(broken):
    """``--strict`` stops there."""
    result = broken.unclobber("run", "--strict", "silent.py")
    assert (result.returncode, result.stdout) == (1, "")
    assert last(result.stderr).startswith("SUMMARY: UC102 ")


def test_guard(broken):
    """The program runs to its end with the gradient of the program as written; one line says what it took,
    another which line made it necessary."""
    result = broken.unclobber("run", "--guard", "dies.py")
    assert result.stdout == "after tensor([2.7183, 2.7183, 2.7183])\n"
    lines = (
        "guard: 1 overwritten value restored (1 place), 12 bytes kept at peak\n"
        "  dies.py:4 overwrites `y` (12 bytes), saved in dies.py:3: restored 1 time\n"
    )
    assert (result.returncode, result.stderr) == (0, lines)


def test_guard_with_nothing_to_do(shell):
    """Guard says so on stderr; stdout is the program's."""
    shell.write("clean.py", "print('hello')")
    result = shell.unclobber("run", "--guard", "clean.py")
    assert (result.stdout, result.stderr) == (
        "hello\n",
        "guard: nothing had to be restored, nothing was kept\n",
    )


def test_json(broken):
    """The document has the three places and the outcome; stderr has what the interpreter would say."""
    result = broken.unclobber("run", "--format", "json", "dies.py")
    report = json.loads(result.stdout)
    assert result.returncode == 1
    assert (report["outcome"], report["exit_code"], report["command"]) == ("refused", 1, ["dies.py"])
    (finding,) = report["findings"]
    assert finding["code"] == "UC101"
    assert [finding["saved"]["line"], finding["writes"][0]["line"], finding["needed"]["line"]] == [3, 4, 5]
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert "unclobber.InplaceError: one of the variables needed for gradient computation" in result.stderr


def test_the_story_ends_in_the_edit(broken):
    """The line to write stands in the text, and in JSON with place, diff and the command that proves it."""
    told = broken.unclobber("run", "dies.py").stderr
    assert "= help: write `y` into a new tensor, in line 4: `y = y.add(1)`\n" in told
    assert "a candidate: `unclobber fix dies.py` proves it or finds another\n" in told
    (finding,) = json.loads(broken.unclobber("run", "--format", "json", "dies.py").stdout)["findings"]
    first = finding["fixes"][0]
    (edit,) = first["edits"]
    assert (edit["line"], edit["end_line"], edit["old"], edit["new"]) == (4, 4, "y.add_(1)", "y = y.add(1)")
    assert (first["proved_by"], first["verified"]) == ("unclobber fix dies.py", False)
    assert "+y = y.add(1)" in first["diff"]


def test_json_of_guard(broken):
    """What guard has repaired is in the document, marked."""
    report = json.loads(
        broken.unclobber("run", "--guard", "--format", "json", "dies.py").stdout.partition("\n")[2]
    )
    assert [finding["repaired"] for finding in report["findings"]] == [True]
    assert (report["exit_code"], report["totals"]["kept_bytes"]) == (0, 12)


def test_text_to_a_file(broken):
    """With ``--output`` the story is in the file; stderr has what the interpreter would say."""
    result = broken.unclobber("run", "--output", "report.txt", "dies.py")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("Traceback")
    assert last((broken.directory / "report.txt").read_text()) == SUMMARY.format("dies.py")


@pytest.mark.parametrize("option", ["--fingerprint", "--fingerprint=0.5"])
def test_fingerprint(shell, option):
    """With and without a rate the word after it is the program, which runs as before."""
    shell.write(
        "clean.py",
        "import sys, torch\nprint(sys.argv)\ntorch.ones(2, requires_grad=True).exp().sum().backward()",
    )
    result = shell.unclobber("run", option, "clean.py", "--fingerprint", "9")
    assert (result.returncode, result.stdout) == (0, "['clean.py', '--fingerprint', '9']\n")
    assert result.stderr == ""
