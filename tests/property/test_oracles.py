"""The oracles themselves: where torch is known to be right they agree with it."""

import ast
from collections import Counter
from contextlib import nullcontext

import pytest
import torch
from how_many import SOME
from hypothesis import given, settings

from grammar import inplace_programs
from oracles import (
    Alias,
    Backward,
    Compute,
    Leaf,
    Loss,
    Machine,
    Program,
    View,
    Write,
    close,
    lazy_clone,
    run_functionally,
    run_source,
    same_bits,
    table,
    unchecked,
    verdict,
)


def hides_writes(program: Program) -> bool:
    """Whether a write goes past torch's version counter, so that plain torch may be silently wrong."""
    return any(getattr(step, "how", None) == "data" for step in program.steps)


@SOME
@given(program=inplace_programs())
def test_functional_run_agrees_with_torch(program):
    """Where torch can see every write and refuses nothing, its gradients are the functional ones."""
    plain = run_source(program)
    if plain.kind == "gradients" and not hides_writes(program):
        assert close(plain.gradients, run_functionally(program)), str(program)


@SOME
@given(program=inplace_programs())
def test_two_oracles_agree(program):
    """A functional run and a copy before every write: made differently, the same gradients."""
    copied = run_source(program, lazy_clone)
    if copied.kind == "gradients":
        assert close(copied.gradients, run_functionally(program)), str(program)


@SOME
@given(program=inplace_programs())
def test_runs_repeat(program):
    """Equal bits twice: a difference between two modes is never chance."""
    assert same_bits(run_source(program).gradients, run_source(program).gradients)
    assert ast.parse(str(program))


def test_programs_are_worth_running():
    """A fair share overwrite what backward needs, hardly any fail for other reasons, all kinds occur."""
    kinds, hows, statements = Counter(), set(), set()

    @settings(SOME, max_examples=200)  # so many that each rare kind occurs
    @given(program=inplace_programs())
    def count(program: Program) -> None:
        kinds[run_source(program).kind] += 1
        hows.update(write.how for write in program.writes)
        statements.update(write.statement.split("(")[0] for write in program.writes)

    count()
    total = kinds.total()
    assert kinds["version"] > total / 6, kinds
    assert kinds["refused"] < total / 20, kinds
    assert hows == {"grad", "no_grad", "inference", "data", "detach"}
    wanted = {"{0}.mul_", "{0}.index_add_", "{0}.masked_fill_", "{0}.scatter_", "torch._foreach_mul_"}
    assert wanted <= statements


def test_functional_run_differs_where_torch_is_wrong(overwritten_exp, offset_view):
    """Hooks that check nothing give wrong gradients on one program, torch's context on another."""
    mutation = torch.autograd.graph.allow_mutation_on_saved_tensors
    for program, context in ((overwritten_exp, unchecked), (offset_view, mutation)):
        assert verdict(run_source(program, context), run_functionally(program)) == "wrong"


def test_plain_torch_refuses_the_overwritten_result(overwritten_exp):
    """The version check is recognised, and the passes before it are kept."""
    outcome = run_source(overwritten_exp)
    assert (outcome.kind, outcome.gradients) == ("version", ())


def test_other_errors_are_recognised():
    """In-place on a leaf is torch's refusal, not a question of saved tensors."""
    program = Program((Leaf("x", (2,)), Write("x", "{0}", "grad", "{0}.neg_()", "-{0}")))
    assert run_source(program).kind == "refused"


@pytest.mark.parametrize("how", ["no_grad", "inference", "data", "detach"])
def test_values_without_history(how):
    """A write around autograd changes what is read later and not where the gradient goes."""
    program = Program((
        Leaf("x", (3,)),
        Compute("y", "{0} * 2", ("x",)),
        Write("y", "{0}[0]", how, "{0}.fill_(5)", "torch.full_like({0}, 5)"),
        Loss("loss", (("y", "squares"),)),
        Backward("loss", retain=False),
    ))  # fmt: skip
    ((found,),) = run_functionally(program)
    torch.manual_seed(0)
    x = torch.randn(3, dtype=torch.float64)
    expected = torch.stack([torch.tensor(20.0, dtype=torch.float64), 8 * x[1], 8 * x[2]])
    assert torch.allclose(found, expected)
    assert close(((found,),), run_source(program, nullcontext).gradients)


def test_views_follow_their_base():
    """A view reads what was written through another view of the same memory."""
    machine = Machine()
    for step in (
        Leaf("x", (2, 3)),
        Compute("y", "{0}.exp()", ("x",)),
        View("row", "y", "{0}[1]"),
        View("turned", "y", "{0}.transpose(0, 1)"),
        Alias("shadow", "y", "detach"),
        Write("turned", "{0}[2]", "grad", "{0}.zero_()", "torch.zeros_like({0})"),
    ):
        machine.run(step)
    assert machine.values("row")[2] == 0
    assert machine.values("shadow")[0, 2] == 0
    assert machine.requires_grad("row")
    assert not machine.requires_grad("shadow")


def test_source_is_a_script(overwritten_exp):
    """What a failed test prints can be pasted into a file and run."""
    lines = str(overwritten_exp).splitlines()
    assert lines[0] == "import torch"
    assert lines[-5:] == [
        "leaves = [x]",
        "y = x.exp()",
        "y.mul_(x)",
        "loss = y.sum()",
        "backward(loss, retain_graph=False)",
    ]


def test_comparisons_tell_apart():
    """None is zero for ``close`` alone; a last bit, a missing pass and a value count."""
    one, zero = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    nudged = torch.nextafter(one, 2 * one)
    assert close(((zero,),), ((None,),))
    assert not same_bits(((zero,),), ((None,),))
    assert close(((one,),), ((nudged,),))
    assert not same_bits(((one,),), ((nudged,),))
    assert not close(((one,),), ((one * (1 + 1e-9),),))
    assert not close(((one,),), ((one,), (one,)))
    assert not close(((one,),), ((None,),))


def test_table_counts_by_mode():
    """The table that the sweep prints."""
    assert table({"plain": Counter(right=1234, wrong=1)}).splitlines()[1].split() == [
        "plain",
        "1,234",
        "1",
        "0",
    ]
