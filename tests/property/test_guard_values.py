"""Under ``guard`` a program has the gradients of the program as written.

Two oracles, made in different ways: a functional run without any in-place operation, equal but for
rounding, and a copy of every storage on the first write after each save, equal to the bit.
"""

from collections import Counter
from contextlib import nullcontext

import pytest
import torch
from how_many import IN_A_PART, PARTS, SOME, sweep
from hypothesis import given

import unclobber
from grammar import inplace_programs
from oracles import (
    Gradients,
    Outcome,
    Program,
    close,
    describe,
    lazy_clone,
    run_functionally,
    run_source,
    same_bits,
    unchecked,
    verdict,
)

pytestmark = pytest.mark.timeout(900)  # a failure takes minutes to shrink, and the small one is the news


def fault(program: Program, context=unclobber.guard) -> str | None:
    """What is wrong with the program's gradients inside ``context``; None if nothing is."""
    legal, guarded = run_source(program, unchecked), run_source(program, context)
    if legal.kind == "refused":  # whatever torch refuses apart from saved tensors stays refused
        same = str(guarded.error).startswith(str(legal.error))  # torch's words first, then the story
        return None if same else f"{guarded.error} in place of {legal.error}"
    return difference(program, guarded, run_functionally(program))


def difference(program: Program, guarded: Outcome, truth: Gradients) -> str | None:
    """How a run is not what it should be; None if it is."""
    if guarded.error is not None:
        return f"refused: {guarded.error!r}"
    if not close(guarded.gradients, truth):
        return "other gradients than the functional run\n" + describe(guarded.gradients, truth)
    if not same_bits(guarded.gradients, run_source(program, lazy_clone).gradients):
        return "other bits than with a copy of every saved value"
    return None


@SOME
@given(program=inplace_programs())
def test_gradients_of_the_program_as_written(program):
    """Right to 1e-10 against the functional run, and to the bit against copies."""
    found = fault(program)
    assert found is None, f"{found}\n\n{program}"


@SOME
@given(program=inplace_programs(refusals=True))
def test_legal_refusals_stay(program):
    """Guard allows overwriting saved values; it makes no other error of torch go away."""
    found = fault(program)
    assert found is None, f"{found}\n\n{program}"


@pytest.mark.sweep
@pytest.mark.parametrize("part", PARTS)
def test_sweep(part, record_property):
    """No wrong gradient in thousands of programs; the table at the end says how the alternatives do."""
    modes = {
        "plain": nullcontext,
        "allow_mutation": torch.autograd.graph.allow_mutation_on_saved_tensors,
        "guard": unclobber.guard,
    }
    counts: dict[str, Counter] = {mode: Counter() for mode in modes}

    def right(program: Program) -> None:
        if run_source(program, unchecked).kind == "refused":
            return
        truth = run_functionally(program)
        for mode, context in modes.items():
            outcome = run_source(program, context)
            counts[mode][verdict(outcome, truth)] += 1
        found = difference(program, outcome, truth)
        assert found is None, f"{found}\n\n{program}"

    sweep(part, inplace_programs(), right)
    assert counts["plain"]["refused"] > IN_A_PART / 10, "the programs hardly overwrite what is needed"
    record_property("verdicts", {mode: dict(count) for mode, count in counts.items()})


def test_a_guard_that_does_nothing_is_caught(overwritten_exp):
    """Both oracles can fail: without undo, backward uses the overwritten values."""
    assert "functional run" in fault(overwritten_exp, unchecked)


def test_a_guard_that_refuses_is_caught(overwritten_exp):
    """Refusing is not guarding."""
    assert "refused" in fault(overwritten_exp, nullcontext)


def test_torchs_own_context_is_caught(offset_view):
    """It is silently wrong for a write through a view at an offset."""
    context = torch.autograd.graph.allow_mutation_on_saved_tensors
    assert "functional run" in fault(offset_view, context)


def test_rounding_in_a_saved_value_is_caught(overwritten_exp):
    """The second oracle is sharper than the first: one bit in a saved value is enough."""
    from torch.autograd.graph import saved_tensors_hooks

    def nudged(tensor):
        return torch.nextafter(tensor.detach(), torch.tensor(9.0, dtype=tensor.dtype))

    assert "bits" in fault(overwritten_exp, lambda: saved_tensors_hooks(nudged, lambda tensor: tensor))
