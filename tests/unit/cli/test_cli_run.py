"""What ``run`` says of the native core at the end of a long run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import warm
from unclobber.cli import run
from unclobber.model import UnclobberError
from unclobber.observe.native import build, core


def missing():
    raise UnclobberError("no C++ compiler")


@pytest.mark.parametrize(
    ("why_not", "compiler", "begins"),
    [
        (core._NOT_BUILT, lambda: "c++", "unclobber: the Python core ran; `unclobber build-native`"),
        (core._NOT_BUILT, missing, ""),
        ("UNCLOBBER_NATIVE=0", lambda: "c++", ""),
        ("", lambda: "c++", ""),
    ],
)
def test_the_native_core_is_named_where_it_could_be_built_and_was_not(monkeypatch, why_not, compiler, begins):
    monkeypatch.setattr(core, "choice", lambda: core.Choice(None, why_not))
    monkeypatch.setattr(build, "compiler_here", compiler)
    said = run._what_native_brings()
    assert said.startswith(begins)
    assert bool(said) == bool(begins)
    assert said.count("\n") == bool(said)


_LONG_RUN = """
import sys
from unclobber.cli import main, run
run._LONG, run._what_native_brings = 0.0, lambda: "unclobber: the Python core ran\\n"
sys.exit(main(["run", "write.py"]))
"""


def test_a_report_ends_in_its_summary(tmp_path):
    """What is said of the native core comes before it."""
    (tmp_path / "write.py").write_text("import torch\ntorch.ones(1, requires_grad=True).add_(1)\n")
    (tmp_path / "long.py").write_text(_LONG_RUN)
    done = warm.python("long.py", cwd=tmp_path)
    *_, summary = done.stderr.splitlines()
    assert "unclobber: the Python core ran\n" in done.stderr
    assert summary.startswith("SUMMARY: UC201 leaf-written")


def test_what_the_native_core_brings_is_what_was_measured(monkeypatch):
    """The medians are those of the committed run of the benchmark."""
    monkeypatch.setattr(core, "choice", lambda: core.Choice(None, core._NOT_BUILT))
    monkeypatch.setattr(build, "compiler_here", lambda: "c++")
    results = Path(__file__).parents[3] / "benchmarks" / "RESULTS.md"
    medians = re.search(r"^\| median \|.*$", results.read_text(), re.M)[0]
    _, native, _, python, _ = re.findall(r"([\d.]+)x", medians)
    assert (
        f"took {native} times a plain one's time with it, and {python} without" in run._what_native_brings()
    )
