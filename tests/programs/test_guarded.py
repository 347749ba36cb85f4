"""Real failing programs under guard: the gradients of the program as it is written."""

import contextlib
import io
import runpy
from pathlib import Path

import pytest

import unclobber
from oracles import lazy_clone, unchecked
from programs.running import Case, find_cases, gradients, run_guarded, run_plain

REFUSED = [case for case in find_cases() if case.family == "saved_modified"]
REFUSED_IN_VAIN = [case for case in REFUSED if "vain" in case.truth.facts]
"""Torch refuses them although the gradient isn't affected: the fixed twin has the same one."""


def named(case: Case) -> str:
    return case.name


def printed(program: Path, context) -> dict[str, tuple[float, float]]:
    """The gradients that a program prints when it runs inside ``context``, in this process."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), context():
        runpy.run_path(str(program), run_name="__main__")
    return gradients(out.getvalue())


def differences(found: dict, expected: dict) -> list[str]:
    """Leaves whose printed sums differ in the fifth digit: the twin adds up in another order."""
    return [
        f"{name}: {found.get(name)}, expected {values}"
        for name, values in expected.items()
        if found.get(name) != pytest.approx(values, rel=1e-4, abs=1e-6)
    ]


def test_cases_are_there():
    """The corpus holds programs that torch refuses in vain."""
    assert len(REFUSED_IN_VAIN) >= 6


@pytest.mark.parametrize("case", REFUSED_IN_VAIN, ids=named)
def test_same_gradients_as_the_fixed_twin(case):
    """``run --guard`` prints what the repaired program prints."""
    guarded = run_guarded(case.path)
    fixed = run_plain(case.fixed)
    assert guarded.exit_code == 0, guarded.stderr
    assert gradients(fixed.stdout)
    assert not differences(gradients(guarded.stdout), gradients(fixed.stdout))


@pytest.mark.parametrize("case", REFUSED, ids=named)
def test_gradients_of_what_forward_saw(case):
    """The same digits as a run that copies every saved value: a critic's step changes nothing."""
    expected = printed(case.path, lazy_clone)
    assert expected, "the case prints no gradients"
    assert printed(case.path, unclobber.guard) == expected


def test_overwritten_values_would_show():
    """The comparison can fail: without undo, a case where values matter prints other digits."""
    case = next(c for c in REFUSED if c.name == "UC101/attention_mask_after_softmax")
    wrong = printed(case.path, unchecked)
    assert wrong != printed(case.path, lazy_clone)
    assert differences({"w": (1.0, 1.0)}, {"w": (1.0, 1.001)})
    assert not differences({"w": (1.0, 1.0)}, {"w": (1.0, 1.000001)})
