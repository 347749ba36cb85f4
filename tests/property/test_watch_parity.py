"""``watch`` decides as torch does wherever torch can see the write.

Torch is the oracle, run without us: our hooks switch its own check off.
"""

import pytest
from how_many import PARTS, SOME, sweep
from hypothesis import given

import unclobber
from grammar import inplace_programs
from oracles import Program, Write, run_source, same_bits, unchecked

pytestmark = pytest.mark.timeout(900)  # a failure takes minutes to shrink, and the small one is the news


def disagreement(program: Program, context=unclobber.watch) -> str | None:
    """What differs between a plain run and one inside ``context``; None if nothing does."""
    plain, watched = run_source(program), run_source(program, context)
    if watched.kind != plain.kind:
        return f"plain: {plain.kind} ({plain.error}); watched: {watched.kind} ({watched.error})"
    if not same_bits(watched.gradients, plain.gradients):
        return f"the gradients of {len(plain.gradients)} passes differ"
    if plain.kind == "refused" and not str(watched.error).startswith(str(plain.error)):
        return f"plain: {plain.error}; watched: {watched.error}"
    if plain.kind == "version" and not _is_ours(watched.error, plain.error):
        return f"not an InplaceError whose first line is {plain.error}: {watched.error!r}"
    return None


def _is_ours(error: Exception | None, plain: Exception | None) -> bool:
    """Whether it begins with torch's sentence, of which only the hint is left out."""
    sentence = str(plain).partition(" Hint: ")[0]
    return isinstance(error, unclobber.InplaceError) and str(error).splitlines()[0] == sentence


@SOME
@given(program=inplace_programs())
def test_refuses_exactly_what_torch_refuses(program):
    """The same verdict at the same backward pass, and the same bits in every pass before it."""
    found = disagreement(program)
    assert found is None, f"{found}\n\n{program}"


@SOME
@given(program=inplace_programs(refusals=True))
def test_other_errors_of_torch_pass_through(program):
    """Writes to leaves, through expansions and to unbound views fail, and torch's own words come first."""
    found = disagreement(program)
    assert found is None, f"{found}\n\n{program}"


@pytest.mark.sweep
@pytest.mark.parametrize("part", PARTS)
def test_sweep(part):
    """The same over thousands of programs."""

    def agrees(program: Program) -> None:
        found = disagreement(program)
        assert found is None, f"{found}\n\n{program}"

    sweep(part, inplace_programs(refusals=True), agrees)


def test_a_watch_that_sees_nothing_is_caught(overwritten_exp):
    """The comparison can fail: hooks that check nothing let a refused program through."""
    assert "plain: version" in disagreement(overwritten_exp, unchecked)


def test_a_watch_that_changes_gradients_is_caught(overwritten_exp):
    """The comparison can fail: hooks that alter a saved value alter the bits."""
    from torch.autograd.graph import saved_tensors_hooks

    harmless = Program(tuple(step for step in overwritten_exp.steps if not isinstance(step, Write)))
    doubled = disagreement(harmless, lambda: saved_tensors_hooks(lambda t: t * 2, lambda t: t))
    assert "differ" in doubled
