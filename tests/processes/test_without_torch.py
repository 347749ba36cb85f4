"""Without torch `check` and its like answer, and all else says in one paragraph how to get one."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

import unclobber
from unclobber.static import CheckRule
from unclobber.static.files import check_file

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "programs"
NEED_TORCH = (
    "audit",
    "freeze",
    "frozen",
    "guard",
    "install",
    "memory",
    "rules",
    "uninstall",
    "vet",
    "watch",
    "ways",
)
ADVICE = "https://pytorch.org/get-started/locally/, or run `pip install 'unclobber[torch]'`"
WRONG = """
import torch

w = torch.ones(3, requires_grad=True)
y = w.exp()
y *= 2
y.sum().backward()
"""


def needed_packages() -> set[str]:
    """The names of all that the package's requirements lead to, without extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    todo = list(project["dependencies"])
    names: set[str] = set()
    while todo:
        wanted = todo.pop()
        name = re.match(r"[\w.-]+", wanted)[0]
        if ";" not in wanted and name not in names:
            names.add(name)
            todo += importlib.metadata.requires(name) or ()
    return names


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> Path:
    """The Python of a new environment with what the package requires, and no torch."""
    home = tmp_path_factory.mktemp("bare")
    venv.create(home, with_pip=False, symlinks=os.name != "nt")
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(
        subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    )
    (site / "checkout.pth").write_text(f"{Path(unclobber.__file__).parents[1]}\n", encoding="utf-8")
    for name in needed_packages():
        distribution = importlib.metadata.distribution(name)
        tops = {
            path.parts[0] for path in distribution.files or () if path.parts[0] not in ("..", "__pycache__")
        }
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(distribution.locate_file(top))
    return python


@pytest.fixture
def command(bare, tmp_path):
    """Runs the command there, in a folder that holds `wrong.py`."""
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [bare, "-m", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


def test_there_is_no_torch(bare):
    """The environment of these tests is what they say."""
    done = subprocess.run([bare, "-c", "import torch"], capture_output=True, text=True, check=False)
    assert "No module named 'torch'" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--help",), 0, "build-native"),
        (("--version",), 0, "core: Python (PyTorch is not installed for "),
        (("explain",), 0, "UC301  "),
        (("explain", "UC101"), 0, "saved-overwritten"),
        (("check", "wrong.py"), 1, "`y = y * 2`\n"),
        (("check", "--format=sarif", "wrong.py"), 1, '"ruleId": "UC101"'),
        (("check", "--format=html", "wrong.py"), 1, "</html>"),
        (("fix", "--no-run", "wrong.py"), 1, "+y = y * 2\n"),
        (("memory", "--help"), 0, "--apply"),
    ],
)
def test_what_needs_no_torch_answers(command, words, code, said):
    """Each with its usual exit code."""
    done = command("unclobber", *words)
    assert (done.returncode, done.stderr) == (code, "")
    assert said in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("run", "wrong.py"),
        ("run", "--guard", "-m", "wrong"),
        ("fix", "wrong.py"),
        ("fix", "--check", "wrong.py"),
        ("memory", "wrong.py"),
        ("rules", "exp"),
        ("rules", "--check", "exp"),
        ("build-native",),
    ],
)
def test_what_needs_torch_says_in_one_paragraph_how_to_get_it(command, words):
    """The interpreter that lacks it, the page that knows the user's GPU, the extra; exit code 2."""
    done = command("unclobber", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("unclobber: PyTorch is not installed for ")
    assert ADVICE in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_function_of_the_library_raises_the_paragraph(bare):
    """As `UnclobberError`, where the name is looked up; what needs no torch is there."""
    code = (
        "import unclobber\nfor name in unclobber.__all__:\n"
        "    try:\n        getattr(unclobber, name)\n"
        "    except unclobber.UnclobberError as error:\n        print(name, error)"
    )
    done = subprocess.run([bare, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(NEED_TORCH)
    assert all(ADVICE in line for line in lines)


def test_check_imports_no_torch_for_a_finding_of_any_code(tmp_path):
    """With candidates, in a process of its own; all codes that `check` can give are there."""
    wanted = {rule.value.code for rule in CheckRule}
    files: dict[str, Path] = {}
    for path in sorted(PROGRAMS.glob("*/*.py")):
        for finding in check_file(str(path), all_rules=True).findings:
            if finding.code not in files:
                files[finding.code] = tmp_path / f"{finding.code}.py"
                files[finding.code].write_bytes(path.read_bytes())
    assert set(files) == wanted
    code = (
        "import contextlib, io, json, sys\nfrom unclobber.cli import main\ncodes = set()\n"
        "for path in sys.argv[1:]:\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as out:\n"
        "        assert main(['check', '--all', '--format=json', path]) == 1\n"
        "        assert main(['fix', '--no-run', path]) in (0, 1)\n"
        "    codes |= {one['code'] for one in json.JSONDecoder().raw_decode(out.getvalue())[0]['findings']}\n"
        "print(json.dumps([sorted(codes), 'torch' in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, files.values())],
        capture_output=True, text=True, timeout=200, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == [sorted(wanted), False]


def test_check_runs_no_file_of_the_folder(tmp_path):
    """Not even one that has the name of a module which `check` imports: Python looks here first for it."""
    (tmp_path / "script.py").write_text(WRONG)
    for name in ("copy", "fractions", "click", "torch"):
        (tmp_path / f"{name}.py").write_text("print('this ran')\nraise SystemExit(9)\n")
    command = [sys.executable, "-m", "unclobber", "check", "--no-cache", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "")
    assert "UC101" in done.stdout
