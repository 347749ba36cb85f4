"""The tools that run the tests elsewhere: what they write down, and what they say where they can't run."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def load(name):
    """A script of ``tools``, as a module."""
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # where its dataclasses look for their annotations
    spec.loader.exec_module(module)
    return module


compat, gpu = load("compat"), load("gpu")
PAGE = f"# Title\n\nWords.\n\n| {' | '.join(compat.COLUMNS)} |\n{compat.RULE}\n\nMore words.\n"


def row(torch, python="3.11", passed=10, commit="0123abcd"):
    return compat.Row(torch, python, passed, 0, 1, "right", 200, "2026-01-31", commit)


def written(*rows):
    page = PAGE
    for one in rows:
        page = compat.with_row(page, one)
    return page


def test_rows_are_read_as_they_were_written():
    rows = [row("2.15.0"), row("2.6.0")]
    assert compat.rows_of(written(*rows)) == rows
    assert compat.rows_of(PAGE) == []


def test_the_newest_torch_comes_first():
    """By number, not by letter; the same torch by Python."""
    page = written(row("2.9.1"), row("2.15.0"), row("2.10.0", "3.9"), row("2.10.0", "3.12"))
    found = [(each.torch, each.python) for each in compat.rows_of(page)]
    assert found == [("2.15.0", "3.11"), ("2.10.0", "3.12"), ("2.10.0", "3.9"), ("2.9.1", "3.11")]


def test_a_later_run_takes_the_place_of_the_earlier_one():
    page = written(row("2.15.0"), row("2.15.0", "3.12"), row("2.15.0", passed=11, commit="4567cdef+"))
    assert [(each.python, each.passed) for each in compat.rows_of(page)] == [("3.12", 10), ("3.11", 11)]


def test_words_around_the_table_stay():
    page = written(row("2.15.0"), row("2.6.0"))
    assert page.startswith("# Title\n\nWords.\n\n| torch | Python |")
    assert page.endswith("|\n\nMore words.\n")


@pytest.mark.parametrize("line", ["| 2.15.0 | 3.11 |", str(row("2.15.0")).replace("10", "ten")])
def test_a_row_that_cannot_be_read(line):
    """It is named, not dropped."""
    with pytest.raises(compat.CompatError, match=r"can't be read: \| 2\.15\.0"):
        compat.rows_of(PAGE.replace(compat.RULE, f"{compat.RULE}\n{line}"))


def test_counts_of_a_run(tmp_path):
    """An error of a fixture is a failure."""
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite tests="10" failures="2" errors="1" skipped="3"/></testsuites>', "utf-8"
    )
    assert compat.counts(report) == (4, 3, 3)


def test_the_page_says_what_runs():
    """Each folder of tests runs or is left out, and the page names it so."""
    text = compat.TABLE.read_text(encoding="utf-8")
    compat.rows_of(text)
    left_out = text.partition("Left out")[2].partition("*Wheel*")[0]
    runs = text.partition("one run of")[2].partition("Left out")[0]
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    folders |= {path.parents[1].name for path in (ROOT / "tests").glob("*/*/test_*.py")} - {"tests"}
    assert folders == {*compat.TESTS, *compat.LEFT_OUT}
    assert set(re.findall(r"`(?:tests/)?(\w+)`", runs)) == set(compat.TESTS)
    assert {*compat.LEFT_OUT} <= set(re.findall(r"`(\w+)`", left_out))


def test_the_readme_has_the_summary():
    """What the wheel must say is what the README shows."""
    assert compat.SUMMARY in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()


def test_requirements_are_the_projects():
    """That torch instead of the declared range, and none of the tools that look at the source alone."""
    found = compat.requirements("2.6.0")
    assert found[0] == "torch==2.6.0"
    assert sum(one.startswith("torch") for one in found) == 1
    assert {"click>=8.1", "pytest>=9", "hatchling"} <= set(found)
    assert not [one for one in found if one.startswith(("ruff", "mypy", "types-"))]


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (
            "ERROR: Could not find a version that satisfies the requirement torch==9.9.9 "
            "(from versions: 2.14.1, 2.15.0)\nERROR: No matching distribution found for torch==9.9.9",
            "there is no torch 9.9.9 for Python 3.12 here. The index has 2.14.1, 2.15.0.",
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "ran full",
        ),
        ("WARNING: slow\nERROR: no network", "pip could not install it: no network"),
    ],
)
def test_what_pip_said_in_one_paragraph(said, answer):
    found = compat.refusal(said, "9.9.9", "3.12")
    assert answer in found
    assert "\n" not in found


def test_a_python_that_is_not_there(tmp_path):
    with pytest.raises(compat.CompatError, match=r"python3\.99 can't be run\. Install"):
        compat.interpreter("3.99")
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such version >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(compat.CompatError, match=r"can't be run \(no such version\)"):
        compat.interpreter(str(broken))


def test_no_room(monkeypatch):
    """Told before anything is fetched; CPU builds are smaller."""
    monkeypatch.setattr(compat.shutil, "disk_usage", lambda path: SimpleNamespace(free=3e9))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    with pytest.raises(compat.CompatError, match=r"has 3\.0 GB free, .* takes about 7 GB"):
        compat._see_room(compat.HOME / "torch-2.15.0-py3.11")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://download.pytorch.org/whl/cpu")
    compat._see_room(compat.HOME / "torch-2.15.0-py3.11")


def test_an_environment_with_another_torch(tmp_path):
    with pytest.raises(compat.CompatError, match="no environment"):
        compat.given("2.15.0", tmp_path)
    with pytest.raises(compat.CompatError, match=r"holds torch \S+, not 1\.0\.0"):
        compat.given("1.0.0", Path(sys.prefix))


def test_an_environment_with_another_checkout(tmp_path, monkeypatch):
    torch = metadata.version("torch").partition("+")[0]
    assert compat.given(torch, Path(sys.prefix)).torch == torch
    monkeypatch.setattr(compat, "ROOT", tmp_path)
    with pytest.raises(compat.CompatError, match="does not hold this checkout"):
        compat.given(torch, Path(sys.prefix))


def test_a_version_is_asked_for():
    command = [sys.executable, str(ROOT / "tools" / "compat.py"), ""]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, "compat: TORCH is a version such as 2.15.0, not ''.\n")


def test_why_a_gpu_run_is_none():
    """In this order: Python, packages, device."""
    assert gpu.complaint((3, 12), lambda name: True, lambda: True) is None
    assert "this is Python 3.10" in gpu.complaint((3, 10), lambda name: False, lambda: False)
    missing = gpu.complaint((3, 11), lambda name: name != "yaml", lambda: False)
    assert "lacks PyYAML." in missing
    assert "sees no CUDA device" in gpu.complaint((3, 11), lambda name: True, lambda: False)


def test_the_workflow_calls_make():
    """With targets that there are, on the Pythons that the package declares."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    called = {words[1] for step in steps if (words := step.get("run", "").split())[:1] == ["make"]}
    assert {"test", "compat", "docs"} <= called <= set(targets)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {one.rpartition(" ")[2] for one in project["classifiers"] if ":: Python :: 3." in one}
    assert set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"]) == declared
