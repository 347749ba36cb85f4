"""Real failing programs: each repair that claims a proof has the gradients of the twin, or of the program
as written."""

from __future__ import annotations

import pytest

from programs.running import Case, find_cases
from repair.judging import judge, same
from unclobber.repair.proof import Runner

REFUSED = [case for case in find_cases() if case.refused]
NO_PROOF = {
    "UC301/forward_outside_loop": "the forward belongs into the loop: that changes what is computed",
    "UC103/dirty_input_not_returned": "torch refuses the Function itself, which has no other reading",
    "unclaimed/pack_hook_rounds_in_place": "torch refuses the hook, which is no finding of ours",
}
SAMPLE = (
    "UC101/ignore_region_after_sigmoid",
    "UC105/selective_cache_relu_in_place",
    "UC203/log_std_chunk_clamped",
    "UC301/module_keeps_recurrent_cache",
)


def _ids(case: Case) -> str:
    return case.name


def _check(case: Case, driver: Runner) -> None:
    verdict = judge(case, driver)
    if case.name in NO_PROOF:
        assert verdict.result == "unproved", verdict
    else:
        assert verdict.result == "right", verdict


@pytest.mark.parametrize("case", [c for c in REFUSED if c.name in SAMPLE], ids=_ids)
def test_sampled(case, driver):
    """One of each: a saved tensor, a checkpoint's cache, a view, a freed graph."""
    _check(case, driver)


@pytest.mark.sweep
@pytest.mark.parametrize("case", REFUSED, ids=_ids)
def test_all(case, driver):
    """Every program that torch refuses."""
    _check(case, driver)


def test_most_can_be_proved():
    """At least 85 % of them."""
    assert len(NO_PROOF) <= 0.15 * len(REFUSED)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"w": (1.0, 2.0)}, {"w": (1.0, 2.0)}, True),
        ({"w": (1.0, 2.0)}, {"w": (1.1, 2.0)}, False),
        ({"w": (1.0, 2.0)}, {}, False),
        ({}, {}, False),
    ],
)
def test_the_judge_can_say_no(one, other, expected):
    """Other numbers, missing leaves and silence are not the same."""
    assert same(one, other) is expected
