"""tools/suites.py: other projects' tests in modes, compared test by test."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import port
from suites import Compared, Difference, Judged, Runner, Suite, compare, differing, page

CALM = """
import sys

def note(name):
    with open({ran!r}, "a") as file:
        file.write(name + "\\n")

def test_first():
    note("first")

def test_second():
    note("second")
"""
DIFFERS = """
def observed():
    return "unclobber.session" in sys.modules

def test_differs():
    assert not observed(), "seen"

def test_fails():
    raise ValueError("always")
"""
PORTED = """
import torch
import torch_npu
import torch_npu.testing
from torch_npu.testing.testcase import TestCase

class TestPort(TestCase):
    def test_device(self):
        self.assertRtolEqual(torch.ones(1, device="npu").npu(), torch.ones(1))
        self.assertEqual(torch_npu.npu.get_device_name(0), "cpu")
        self.assertTrue(torch.npu.is_available())
        torch.npu.memory_allocated()
"""


def suite(folder: Path, text: str, device: str | None = None) -> Suite:
    folder.mkdir(exist_ok=True)
    (folder / "test_it.py").write_text(text.format(ran=str(folder / "ran")))
    options = ("test_it.py", f"--rootdir={folder}", "--assert=plain", "-o", "addopts=")
    return Suite("it", folder, options, "key", device=device)


def ran(folder: Path) -> list[str]:
    return (folder / "ran").read_text().split()


def test_the_comparer_reports_what_differs_and_nothing_else(tmp_path: Path) -> None:
    compared = compare(Runner(tmp_path / "state", 60), suite(tmp_path / "s", CALM + DIFFERS), ["watch"])
    name = "test_it.py::test_"
    assert set(compared.counted) == {name + t for t in ("first", "second", "differs")}
    assert compared.plain[name + "fails"]["error"] == "ValueError: always"
    assert compared.differences == [
        Difference(name + "differs", "watch", "failed", "AssertionError: seen", True)
    ]


def test_a_run_goes_on_after_the_last_outcome_that_was_written(tmp_path: Path) -> None:
    runner, calm = Runner(tmp_path / "state", 60), suite(tmp_path / "s", CALM)
    whole = runner.run(calm, "plain")
    assert runner.run(calm, "plain") == whole
    assert ran(tmp_path / "s") == ["first", "second"]
    results = tmp_path / "state" / "it" / "plain.jsonl"
    lines = results.read_text().splitlines(keepends=True)
    results.write_text("".join(lines[:4]) + lines[4][:5])  # cut off when the second outcome was written
    assert set(runner.run(calm, "plain")) == set(whole)
    assert ran(tmp_path / "s") == ["first", "second", "second"]


def test_results_of_another_key_are_dropped(tmp_path: Path) -> None:
    runner, calm = Runner(tmp_path / "state", 60), suite(tmp_path / "s", CALM)
    runner.run(calm, "plain")
    runner.run(replace(calm, key="another"), "plain")
    assert ran(tmp_path / "s") == ["first", "second"] * 2


def test_a_sample_is_said_with_what_it_is_of_and_what_was_not_begun_is_named(tmp_path: Path) -> None:
    sampled = replace(suite(tmp_path / "s", CALM), sample=1)
    compared = compare(Runner(tmp_path / "state", 60), sampled, [])
    assert (compared.ran, compared.collected) == (1, 2)
    text = page("", [compared], Judged({}, {}), [], left=["another"])[0]
    assert "- another: not run\n- it: 1 of its 2 tests ran" in text


def test_what_was_skipped_for_want_of_memory_does_not_count(tmp_path: Path) -> None:
    large = """
import sys, unittest

def test_large():
    if "unclobber.session" in sys.modules:
        raise unittest.SkipTest("{said}")
"""
    short, seen = (
        compare(Runner(folder / "state", 60), suite(folder, large.replace("{said}", said)), ["watch"])
        for folder, said in ((tmp_path / "s", "Insufficient cpu memory"), (tmp_path / "t", "seen"))
    )
    assert (short.differences, len(seen.differences)) == ([], 1)
    text = page("", [short], Judged({}, {}), ["watch"])[0]
    assert "- it: `test_it.py::test_large` wants more memory than was free each time" in text


def test_what_can_t_be_imported_is_said_without_the_folders_of_this_machine(tmp_path: Path) -> None:
    broken = suite(tmp_path / "s", "from pytest import nothing_of_that_name\n")
    compared = compare(Runner(tmp_path / "state", 60), broken, [])
    text = page("", [compared], Judged({}, {}), [], left=[])[0]
    assert "uncollected plain: E   ImportError" in text
    assert "(pytest/__init__.py)" in text


def test_a_test_that_exceeds_its_time_is_blamed_and_the_next_one_runs(tmp_path: Path) -> None:
    slow = "\ndef test_a_hangs():\n    import time; time.sleep(60)\n\ndef test_b():\n    pass\n"
    results = Runner(tmp_path / "state", 2).run(suite(tmp_path / "s", slow), "plain")
    assert {test: line["outcome"] for test, line in results.items()} == {
        "test_it.py::test_a_hangs": "crashed",
        "test_it.py::test_b": "passed",
    }


def test_a_port_runs_on_the_cpu_and_skips_what_that_has_not(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    results = Runner(tmp_path / "state", 60).run(suite(folder, PORTED, device=str(folder)), "plain")
    (line,) = results.values()
    assert line["outcome"] == "skipped"
    assert "the CPU has no memory_allocated" in line["error"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch_npu; ones(device='npu:0').npu()", "import torch_npu; ones(device='cpu:0').cpu()"),
        ("import torch_npu; torch.npu.synchronize()", "import torch_npu; torch_npu.npu.synchronize()"),
        ("import torch_npu; x.is_npu; only_for='privateuse1'", "import torch_npu; x.is_cpu; only_for='cpu'"),
        ("import torch_npu; input.cpu(); npu_output", "import torch_npu; input.cpu(); npu_output"),
        ("torch.ones(1, device='npu')", "torch.ones(1, device='npu')"),
    ],
)  # fmt: skip
def test_the_device_is_mapped_only_where_the_port_is_imported(source: str, expected: str) -> None:
    assert port.mapped(source) == expected


def line(outcome: str) -> dict[str, object]:
    return {"outcome": outcome, "error": "", "seconds": 1.0, "findings": []}


def test_a_test_without_an_outcome_differs_and_one_that_fails_plain_does_not() -> None:
    plain = {"a": line("passed"), "b": line("failed"), "c": line("xfailed"), "d": line("passed")}
    assert differing(plain, {"b": line("passed"), "c": line("xpassed"), "d": line("passed")}) == ["a", "c"]


def test_what_takes_long_plain_is_not_compared_and_that_is_said(tmp_path: Path) -> None:
    runner, differs = Runner(tmp_path / "state", 60), suite(tmp_path / "s", CALM + DIFFERS)
    compared = compare(runner, differs, ["watch"], longest=-1)
    assert not compared.counted
    assert not compared.differences
    assert "- it: 3 that take more than" in page("", [compared], Judged({}, {}), ["watch"])[0]


def test_what_is_by_design_is_no_problem_and_what_no_longer_differs_is_one() -> None:
    compared = Compared("it", {"a": line("passed")}, {"guard": {"a": line("failed")}})
    compared.differences = [Difference("a", "guard", "failed", "AssertionError: not raised", True)]
    key = ("it", "a", "guard", "AssertionError: not raised")
    text, problems = page("", [compared], Judged({key: "repaired"}, {}), ["guard"])
    assert problems == []
    assert "`a`: repaired" in text
    other = (*key[:3], "AssertionError: another error")
    assert len(page("", [compared], Judged({other: "repaired"}, {}), ["guard"])[1]) == 2


def test_a_silent_finding_is_listed_with_its_verdict() -> None:
    watched = line("passed") | {"findings": [["UC102", "`x` was overwritten", "silent"]]}
    compared = Compared("it", {"a": line("passed")}, {"watch": {"a": watched}})
    assert "**not judged**" in page("", [compared], Judged({}, {}), ["watch"])[0]
    verdict = {("it", "UC102", "`x` was overwritten"): "true"}
    assert "overwritten: true" in page("", [compared], Judged({}, verdict), ["watch"])[0]
