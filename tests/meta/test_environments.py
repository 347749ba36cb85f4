"""``tools/environments.py`` runs tests with what its table says, and tells when one fails."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]

TESTS = """
import os

def test_variables():
    assert (os.environ["TZ"], os.environ["COLUMNS"]) == ("Asia/Kolkata", "40")
    assert os.listdir(os.environ["HOME"]) == []

def test_more():
    assert {passes}
"""


@pytest.fixture
def environments(monkeypatch, tmp_path):
    """The script as a module, which writes its logs to a folder of the test's."""
    spec = importlib.util.spec_from_file_location("environments", ROOT / "tools" / "environments.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "environments", module)  # dataclasses look it up
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "LOGS", tmp_path)
    return module


@pytest.mark.parametrize(("passes", "code"), [(True, 0), (False, 1)])
def test_an_environment_reaches_the_tests(environments, tmp_path, capsys, passes, code):
    """The variables are set, HOME is empty, and a test that fails is in the line and the exit code."""
    tests = tmp_path / "test_it.py"
    tests.write_text(TESTS.format(passes=passes))
    words = ["-p", "no:cacheprovider", "-q", "-c", "/dev/null", "--rootdir", str(tmp_path), str(tests)]
    assert environments.main(["B", "--", *words]) == code
    assert ("2 passed" if passes else "1 failed, 1 passed") in capsys.readouterr().out


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="such a copy is made of a git checkout")
def test_the_odd_path_is_pythons_too(environments):
    """Sources and interpreter of the copy have a space and an umlaut in their paths."""
    with environments.odd_copy() as (copy, python):
        assert (copy / "src" / "unclobber" / "__init__.py").is_file()
        words = [python, "-c", "import sys, pytest; print(sys.executable)"]
        printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert printed.strip().startswith(str(copy))
    assert " " in str(copy)
    assert not str(copy).isascii()


def test_names_that_are_none(environments, capsys):
    """They are refused with the list of those that there are."""
    assert environments.main(["default", "nowhere"]) == 2
    assert "environments: default, " in capsys.readouterr().out


def test_continuous_integration_runs_two(environments):
    """The matrix names environments of the table."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    named = workflow["jobs"]["environments"]["strategy"]["matrix"]["environment"]
    assert len(named) == 2
    assert set(named) <= set(environments.ENVIRONMENTS)
