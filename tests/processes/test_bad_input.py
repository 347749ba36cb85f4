"""Bad input gets one clear paragraph, exit code 2 and no traceback of ours; nothing of the program runs."""

from __future__ import annotations

import os

import pytest

WARM = True

MARK = "import pathlib; pathlib.Path('ran').touch()\n"
NO_TORCH = """
    import sys
    class Blocked:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "torch":
                raise ModuleNotFoundError("No module named 'torch'", name="torch")
    sys.meta_path.insert(0, Blocked())
"""

CASES = {
    "nothing": ([], ["nothing to run", "unclobber run train.py"]),
    "missing script": (["nope.py"], ["can't read the script nope.py", "No such file"]),
    "directory": (["folder"], ["folder is a directory", "-m PACKAGE"]),
    "syntax": (["syntax.py"], ["syntax.py, line 3", "'(' was never closed", "\n  x = (1\n      ^\n"]),
    "indentation": (["indent.py"], ["indent.py, line 2", "unexpected indent"]),
    "null bytes": (["null.py"], ["null.py", "null bytes"]),
    "encoding": (["latin.py"], ["latin.py", "utf-8"]),
    "unknown option": (
        ["--frmat", "json", "marks.py"],
        ["No such option", "--frmat", "unclobber run --help"],
    ),
    "unknown format": (["--format", "xml", "marks.py"], ["no report format 'xml'", "text, json"]),
    "rate": (["--fingerprint=2", "marks.py"], ["--fingerprint", "2"]),
    "missing module": (["-m", "not_there"], ["module not_there", "No module named 'not_there'"]),
    "missing submodule": (["-m", "pkg.not_there"], ["pkg.not_there", "No module named"]),
    "missing package": (["-m", "pkg.deep.er"], ["pkg.deep.er", "No module named 'pkg.deep'"]),
    "module by file name": (["-m", "marks.py"], ["without `.py`", "`-m marks`"]),
    "package without main": (["-m", "pkg"], ["'pkg' is a package and cannot be directly executed"]),
    "relative module": (["-m", ".marks"], ["is no module name"]),
    "syntax in a module": (["-m", "pkg.broken"], ["broken.py, line 1", "nothing was run"]),
    "output in no directory": (
        ["--output", "no/dir/r.json", "marks.py"],
        ["can't write the report", "no/dir"],
    ),
    "output is a directory": (["--output", "folder", "marks.py"], ["can't write the report", "directory"]),
}


@pytest.fixture
def inputs(shell):
    """Good and bad programs side by side."""
    shell.write("marks.py", MARK)
    shell.write("syntax.py", MARK + "\nx = (1\n")
    shell.write("indent.py", MARK + "  x = 1\n")
    (shell.directory / "null.py").write_bytes(MARK.encode() + b"x = 1\x00\n")
    (shell.directory / "latin.py").write_bytes(MARK.encode() + b"x = '\xe4'\n")
    shell.write("pkg/__init__.py", "")
    shell.write("pkg/broken.py", "def f(:\n")
    (shell.directory / "folder").mkdir()
    return shell


@pytest.mark.parametrize(("words", "parts"), CASES.values(), ids=CASES)
def test_bad_input(inputs, words, parts):
    """What is wrong and what to do, in one paragraph; the program has not started."""
    check(inputs.unclobber("run", *words), parts)
    assert not (inputs.directory / "ran").exists()


@pytest.mark.parametrize("path", ["notes.txt", "syntax.py", "null.py", "cells.ipynb"])
def test_no_python(inputs, path):
    """A file that isn't Python is told in the same words and with the same place by all commands that run or
    read it. A notebook is none to those that run it; `check` reads its cells."""
    inputs.write("notes.txt", "\nhello world, this\n")
    inputs.write("cells.ipynb", '{"cells": []}')
    commands = ("run", "memory", "fix", *(("check",) if path != "cells.ipynb" else ()))
    told = {command: inputs.unclobber(command, path) for command in commands}
    for result in told.values():
        check(result, [path])
    assert len({result.stderr for result in told.values()}) == 1


def check(result, parts):
    """One paragraph on stderr with these parts, exit code 2, nothing on stdout.

    Below it stands only the line that is no Python, with a caret.
    """
    assert (result.returncode, result.stdout) == (2, "")
    paragraph, *source = result.stderr.splitlines()
    assert paragraph.startswith("unclobber: ")
    assert not source or (
        "is not valid Python" in paragraph and len(source) == 2 and source[1].strip() == "^"
    )
    assert "Traceback" not in result.stderr
    for part in parts:
        assert part in result.stderr


def test_check_can_fail(inputs):
    """A program that runs, and one that fails by itself, don't pass for bad input."""
    inputs.write("fails.py", "import sys; sys.exit('unclobber: no')")
    with pytest.raises(AssertionError):
        check(inputs.unclobber("run", "marks.py"), [])
    with pytest.raises(AssertionError):
        check(inputs.unclobber("run", "fails.py"), [])
    assert (inputs.directory / "ran").exists()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read and write anything"
)
def test_no_permission(inputs):
    """A script that may not be read, an output that may not be written."""
    (inputs.directory / "marks.py").chmod(0)
    check(inputs.unclobber("run", "marks.py"), ["Permission denied"])
    (inputs.directory / "folder").chmod(0o500)
    check(inputs.unclobber("run", "--output", "folder/r.json", "pkg/__init__.py"), ["permission denied"])


def test_no_torch(inputs):
    """Without torch the paragraph names the interpreter that lacks it."""
    inputs.write("start/sitecustomize.py", NO_TORCH)
    result = inputs.unclobber("run", "marks.py", env={"PYTHONPATH": str(inputs.directory / "start")})
    check(result, ["PyTorch is not installed for", "python", "https://pytorch.org/get-started/locally/"])
    assert not (inputs.directory / "ran").exists()


@pytest.mark.parametrize(
    ("version", "parts"),
    [
        ("2.5.1+cu121", ["PyTorch 2.5.1+cu121 is too old", "Install torch 2.6 or a later"]),
        ("1.13.0", ["PyTorch 1.13.0 is too old"]),
    ],
)
@pytest.mark.parametrize("script", ["import torch\n", "try: import torch\nexcept Exception: pass\n"])
def test_old_torch(inputs, version, parts, script):
    """A torch that is too old is told once the program imports it, whatever the program catches."""
    inputs.warm = False
    inputs.write("torch.py", f"__version__ = {version!r}")
    inputs.write("uses.py", script)
    check(inputs.unclobber("run", "uses.py"), parts)


@pytest.mark.parametrize("text", ["import not_there", "raise OSError('libtorch.so: no such file')"])
def test_broken_torch(inputs, text):
    """A torch that can't be imported raises in the program, which may go on without it."""
    inputs.warm = False
    inputs.write("torch.py", text)
    inputs.write("needs.py", "import torch\n")
    inputs.write("may.py", "try: import torch\nexcept (ImportError, OSError): print('without')\n")
    needs, may = (inputs.unclobber("run", name) for name in ("needs.py", "may.py"))
    plain = inputs.python("needs.py")
    assert (needs.returncode, needs.stdout, needs.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert (may.returncode, may.stdout, may.stderr) == (0, "without\n", "")


def test_module_entry_and_command_agree(inputs):
    """Wrong use of the group itself is told in the same way."""
    check(inputs.unclobber("rnu"), ["No such command", "rnu"])
    bare = inputs.unclobber()
    assert (bare.returncode, bare.stdout) == (2, "")
    assert bare.stderr.startswith("Usage: unclobber ")
