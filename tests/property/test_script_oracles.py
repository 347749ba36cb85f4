"""Random scripts, their oracle and its comparison: each can be wrong, and is tested here."""

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite

import pytest
import torch
from how_many import SOME
from hypothesis import given

import unclobber
from grammar import inplace_programs, random_script
from oracles import close, run_functionally, run_source, unchecked
from oracles.scripts import (
    Script,
    copies,
    difference,
    facts,
    judge,
    run,
    shrunk,
    tally_table,
    truth,
    with_copies,
)
from torch_features import needs

SAVED = Script(
    (
        "x0 = leaf(0, (3,), torch.float64)",
        "y = x0.exp()",
        "with torch.no_grad(): y.mul_(2)",
        "y.sum().backward()",
        "keep('main', x0.grad)",
    )
)
"""torch refuses it."""

SILENT = Script((*SAVED.main[:2], "y.data.mul_(2)", *SAVED.main[3:]))
"""torch does not see the write."""

HARMLESS = Script((*SAVED.main[:2], "z = x0 + 1", "z.mul_(2)", *SAVED.main[3:]))


# --- the generator ----------------------------------------------------------------------------------


def test_scripts_are_worth_running():
    """Most are legal, a fair share overwrite what backward needs, and every way to write occurs."""
    counts, text = Counter(), ""
    for seed in range(80):
        script = random_script(seed)
        text += str(script)
        found = facts(script)
        counts[found.family] += 1
        counts["overwritten"] += any(need.changed or need.moved for need in found.truth.needs)
    assert counts["illegal"] < 80 * 0.05, counts
    assert counts["others"] < 80 * 0.3, counts
    assert 80 * 0.3 < counts["overwritten"] < 80 * 0.7, counts
    for words in (
        "no_grad()", ".data.", ".detach().", "out=", "_foreach_", ".step()", "apply(", "checkpoint(",
        "in_threads(", "create_graph", "retain_graph", "inplace=True", "parametrizations", "complex",
        "bfloat16", "unbind", "as_strided", "scatter", ".numpy()", "register_hook",
    ):  # fmt: skip
        assert words in text, words


def test_a_seed_is_a_script():
    """The same text again, and another one for another seed."""
    assert str(random_script(3)) == str(random_script(3)) != str(random_script(4))


def test_a_script_stands_alone():
    """What a failed test prints can be pasted into a file and run."""
    space = {}
    exec(str(HARMLESS), space)
    assert len(space["kept"]["main"]) == 1


def test_shrinking_keeps_the_fault():
    """What is not needed for torch's refusal goes."""
    script = Script((*SAVED.main[:2], "z = y + 1", "z = z * 2", *SAVED.main[2:]))
    assert shrunk(script, lambda smaller: "modified" in str(run(smaller).error)).main == SAVED.main[:4]


# --- the truth --------------------------------------------------------------------------------------


@SOME
@given(program=inplace_programs())
def test_copies_have_the_gradients_of_a_functional_run(program):
    """The other generator's programs, which are run without any in-place operation, too."""
    copied = run_source(program, copies)
    if copied.kind == "gradients":
        assert close(copied.gradients, run_functionally(program)), str(program)


@pytest.mark.parametrize("seed", range(60))
def test_copies_have_the_gradients_of_finite_differences(seed):
    """The first gradient of a script is how its loss changes, where it has no kink."""
    script = random_script(seed, smooth=True)
    at = next((n for n, text in enumerate(script.main) if ".backward(" in text), None)
    if at is None:
        return
    leaves = [text.partition(" ")[0] for text in script.main if " = leaf(" in text]
    loss = script.main[at].partition(".")[0]
    ends = f"keep('main', {loss}, {', '.join(f'{leaf}.grad' for leaf in leaves)})"
    value, *gradients = with_copies(Script((*script.main[: at + 1], ends))).kept["main"][-1]
    before = Script((*script.main[:at], f"keep('main', {loss})"))
    h = 1e-6
    above, below = (moved_loss(before, step) for step in (h, -h))
    expected = sum(
        float((gradient * direction(gradient)).sum()) for gradient in gradients if gradient is not None
    )
    sides = (above - float(value)) / h, (float(value) - below) / h
    # A norm has a kink at 0, and there torch's second derivative is NaN.
    if isfinite(expected) and abs(sides[0] - sides[1]) < 1e-3 * max(1.0, abs(expected)):
        assert sum(sides) / 2 == pytest.approx(expected, rel=1e-3, abs=1e-4), str(script)


def direction(leaf: torch.Tensor) -> torch.Tensor:
    return torch.arange(1.0, leaf.numel() + 1, dtype=leaf.dtype).sin().reshape(leaf.shape)


def moved_loss(script: Script, step: float) -> float:
    """The last value kept, with every leaf moved by a step."""

    def move(space):
        leaf = space["leaf"]

        def moved(*arguments):
            at = leaf(*arguments).detach()
            return (at + step * direction(at)).requires_grad_()

        space["leaf"] = moved

    return float(run(script, copies, move).kept["main"][-1][0])


def test_truth_knows_what_happened():
    """Which saved tensor was overwritten, where, and by which line."""
    first = SAVED.first_line  # seeds the random numbers
    found = truth(SAVED)
    (need,), (writes,) = [need for need in found.needs if need.moved], found.writes
    assert (need.saved.lines, need.lines, need.changed) == ((first + 2,), (first + 4,), True)
    assert need.saved.names == frozenset()  # has no name until it is assigned
    assert need.names == need.sharing == {"y"}
    assert [(write.operation, write.lines) for write in writes] == [("mul_", (first + 3,))]
    assert not any(need.changed or need.moved for need in truth(HARMLESS).needs)


def test_a_run_with_copies_refuses_to_write_where_elements_share_memory():
    """A hook that writes to its gradient, which is expanded: torch refuses it, whatever the values."""
    hooked = "y.register_hook(halve)"
    refused = Script(("x0 = leaf(0, (3,), torch.float64)", "y = x0 * 2", hooked, "y.sum().backward()"))
    told = facts(refused)
    assert "written-to tensor" in str(told.plain.error)
    assert told.truth.ending.sentence == told.plain.sentence
    fine = Script((*refused.main[:-1], "y.cos().sum().backward()", "keep('main', x0.grad)"))
    assert facts(fine).right_already


SUMMED = Script(
    (
        "x0 = leaf(0, (4, 4), torch.float64)",
        "y = x0 * 1.1",
        "z = checkpoint(wave, y, use_reentrant=True)",
        "((y * y).sum() + z.square().sum() + y.exp().sum()).backward()",
        "keep('main', x0.grad)",
    )
)
"""Where the parts of a gradient are added up in another order, its last bits are others."""
ARRAY = Script((*SAVED.main[:2], "y.detach().numpy()[...] = 0.25", *SAVED.main[3:]))
WRITTEN_PAST_TORCH = Script(
    (
        *SAVED.main[:2],
        "s = (y * y).sum()",
        "y.detach().numpy()[...] = 0.25",
        "y[0] = y[0]",
        "s.backward()",
        "keep('main', x0.grad)",
    )
)
"""What torch counts changes nothing, but without a hash nobody knows that NumPy has."""
FLATTENED = Script(
    (
        "x0 = leaf(0, (2, 3, 3), torch.float64)",
        "m0 = nn.Linear(3, 3, bias=False).to(torch.float64)",
        "y = x0.exp()",
        "z = m0(y)",
        "y.detach().mul_(2)",
        "z.sum().backward()",
    )
)
OVERLAPPING = Script(
    ("x0 = leaf(0, (3,), torch.float64)", "y = WritesGradient.apply(x0)", "y.sum().backward()")
)
REPAIRED = Script(
    (
        "x0 = leaf(0, (3,), torch.float64)",
        "y = x0.exp()",
        "z = (y * y).sum()",
        "y.data.mul_(2)",
        "(g,) = torch.autograd.grad(z, [x0], create_graph=True)",
        "y.data.mul_(2)",
        "g.sum().backward()",
        "keep('main', x0.grad)",
    )
)
"""What a differentiated backward saves is overwritten, unless that backward got a copy."""
CHECKPOINTED = Script(
    (
        "x0 = leaf(0, (3,), torch.float64)",
        "y = checkpoint(wave, x0, use_reentrant=False)",
        "z = y.cos() * 0",
        "y.data.mul_(2)",
        "z.sum().backward()",
        "keep('main', x0.grad)",
    )
)
"""What is saved outside of the checkpoint is overwritten, and yet the gradients are right."""
RUN_AGAIN = Script(
    (
        "x0 = leaf(0, (3, 3), torch.float32)",
        "m0 = nn.Sequential(nn.ReLU(), nn.Dropout(0.5, inplace=True), nn.Tanh())",
        "y = checkpoint(m0, x0, use_reentrant=False)",
        "y.square().mean().backward()",
        "keep('main', x0.grad)",
    )
)
"""The checkpoint's own code overwrites what it has saved, each time that it runs; the gradients are right."""
TWICE = Script(
    (
        "x0 = leaf(0, (3,), torch.float64)",
        "y = checkpoint(wave, x0, use_reentrant=True)",
        "z = y.exp()",
        "a, b = z.sum(), y.sum()",
        "with torch.no_grad(): z.mul_(2)",
        "a.backward()",
        "b.backward()",
    )
)
"""Where nothing else is refused, a reentrant checkpoint is: the first backward has freed it."""
SAVED_IN_BACKWARD = Script(
    (
        "x0 = leaf(0, (3,), torch.float64)",
        "y = RemembersSome.apply(x0, x0)",
        "(g,) = torch.autograd.grad(y.cos().sum(), [x0], create_graph=True)",
        "with torch.no_grad(): x0.mul_(2)",
        "g.sum().backward()",
    )
)
"""The line that saves is a helper's, and another helper stands there in a run with copies."""
NUMBER_SAVED = Script(
    (
        "x0 = leaf(0, (3,), torch.float64)",
        "y = x0 * 2",
        "a, b = y.sum(), y.exp().sum()",
        "a.backward()",
        "x0.exp().sum().backward()",
        "b.backward()",
    )
)
"""What is refused has saved nothing but the 2, which no hook is shown."""
ASTRAY = Script(
    (
        "x0 = leaf(0, (3,), torch.float64)",
        "o0 = torch.optim.SGD([x0], lr=0.1)",
        "y = x0.exp()",
        "y.data.zero_()",
        "y.sum().backward()",
        "keep('main', x0.grad)",
        "s = (x0 * x0).sum()",
        "o0.step()",
        "s.backward()",
        "keep('main', x0.grad)",
    )
)
"""By plain torch's gradient the step changes nothing, by the right one it does."""
STOPPED = Script((*SILENT.main, "torch.ones(3).triu_()"))
"""The last statement is an error of its own."""
GIVEN_AGAIN = Script(
    (
        "x0 = leaf(0, (2, 4), torch.float64)",
        "m0 = nn.Linear(4, 4).to(torch.float64)",
        "y = checkpoint(m0, x0, use_reentrant=False)",
        "x0.data.clamp_min_(0)",
        "keep('main', *torch.autograd.grad(y.cos().sum() * 0 + x0.sum(), [x0]))",
    )
)
"""The checkpoint's input is overwritten before its code runs again, though no gradient here shows it."""
FREED_LATER = Script(
    (
        "x0 = leaf(0, (4, 4), torch.float64)",
        "m0 = parametrizations.spectral_norm(nn.Linear(4, 3)).to(torch.float64)",
        "y = checkpoint(m0, x0, use_reentrant=False)",
        "z = y.cos().sum()",
        "z.backward()",
        "keep('main', x0.grad)",
        "z.backward()",
    )
)
"""Before torch refuses the second backward, guard has refused the first: its gradients would be wrong, for
a spectral norm that is run again in training has iterated once more."""
OWN_ERROR = Script((*SAVED.main, "torch.ones(3).triu_()"))
"""Where torch refuses, audit goes on, and comes to an error of the script's own."""
REPAIRED_IN_BACKWARD = Script(
    (
        "x0 = leaf(0, (3,), torch.float64)",
        "y = SavesResult.apply(x0)",
        "y.data.mul_(2)",
        "(g,) = torch.autograd.grad(y.sum(), [x0], create_graph=True)",
        "y.data.mul_(2)",
        "g.sum().backward()",
        "keep('main', x0.grad)",
    )
)
"""The same as ``REPAIRED`` where the differentiated backward is a helper's."""


def test_a_reentrant_checkpoint_sums_up_as_without_copies():
    assert facts(SUMMED).right_already


def test_truth_knows_writes_to_arrays():
    found = truth(ARRAY)
    assert [[write.lines for write in one] for one in found.writes] == [[(ARRAY.first_line + 3,)]]


def test_truth_knows_the_tensor_that_a_layer_flattens():
    assert "y" in truth(FLATTENED).refusal.names


def test_copies_refuse_what_torch_refuses_to_write():
    assert truth(OVERLAPPING).ending.sentence == run(OVERLAPPING).sentence is not None


EXCUSED = (
    *(SUMMED, ARRAY, WRITTEN_PAST_TORCH, FLATTENED, OVERLAPPING),
    *(REPAIRED, CHECKPOINTED, RUN_AGAIN, TWICE, STOPPED),
    *(SAVED_IN_BACKWARD, NUMBER_SAVED, ASTRAY),
    *(GIVEN_AGAIN, FREED_LATER, OWN_ERROR, REPAIRED_IN_BACKWARD),
)


@pytest.mark.parametrize("script", EXCUSED)
def test_no_mode_is_blamed_for_what_it_can_not_help(script):
    assert judge(script).faults == []


def test_a_stale_value_is_told():
    """A need that is answered with the memory as it is gives plain torch's silent gradient."""
    assert difference(with_copies(SILENT, stale=("main", 0)).kept, run(SILENT).kept) is None
    assert difference(with_copies(SILENT).kept, run(SILENT).kept) is not None


def test_a_stale_value_of_one_thread_is_told():
    """However the needs of the two alternate."""
    left, right = (
        tuple(text.replace("'main'", f"'{lane}'") for text in SILENT.main) for lane in ("left", "right")
    )
    both = Script(left=left, right=right, main=("in_threads(left, right)",))
    fresh, stale = (with_copies(both, stale=place).kept for place in (None, ("right", 0)))
    assert difference({"left": fresh["left"]}, {"left": stale["left"]}) is None
    assert difference(fresh, stale) is not None


# --- the comparison can fail ------------------------------------------------------------------------


def kinds(script: Script, **modes) -> set[tuple[str, str]]:
    return {(fault.mode, fault.about) for fault in judge(script, **modes).faults}


@contextmanager
def plain_torch():
    yield


def test_nothing_is_wrong_with_the_package():
    """In three scripts of one kind each."""
    assert [kinds(script) for script in (SAVED, SILENT, HARMLESS)] == [set(), set(), set()]


def test_a_guard_that_does_nothing_is_caught():
    """Its gradients are wrong, or it refuses."""
    assert ("guard", "values") in kinds(SAVED, guard=unchecked)
    assert ("guard", "verdict") in kinds(SAVED, guard=plain_torch)


def test_a_watch_that_sees_nothing_is_caught():
    """It lets a refused script through, or says nothing of a silent one, or has torch's bare error."""
    assert ("watch", "verdict") in kinds(SAVED, watch=unchecked)
    assert ("watch", "findings") in kinds(SILENT, watch=plain_torch)
    assert ("watch", "verdict") in kinds(SAVED, watch=plain_torch)


def test_a_strict_that_only_warns_is_caught():
    """It must raise where watch warns."""
    assert ("strict", "verdict") in kinds(SILENT, strict=unclobber.watch)


def altered(change):
    """A watch whose findings say something else."""

    class Altered(unclobber.watch):
        @property
        def findings(self):
            return tuple(change(finding) for finding in super().findings)

    return Altered


@pytest.mark.parametrize("script", [SAVED, SILENT], ids=["refused", "silent"])
@pytest.mark.parametrize("place", ["saved", "written", "needed"])
def test_a_wrong_line_is_caught(script, place):
    """One line off, at any of the three places."""

    def change(finding):
        def moved(one):
            return replace(one, site=replace(one.site, line=one.site.line + 1, stack=()))

        if place == "written":
            return replace(finding, writes=tuple(moved(write) for write in finding.writes))
        return replace(finding, **{place: moved(getattr(finding, place))})

    assert ("watch", "lines") in kinds(script, watch=altered(change))


def test_a_wrong_line_of_a_freed_graph_is_caught():
    """That of another backward, where no hook is told who has freed it."""

    def change(finding):
        freed = finding.freed
        site = replace(freed.site, line=freed.site.line + 1, stack=())
        return replace(finding, freed=replace(freed, site=site))

    assert ("watch", "lines") in kinds(NUMBER_SAVED, watch=altered(change))


def test_a_wrong_name_is_caught():
    """Another variable's."""
    assert ("watch", "lines") in kinds(
        SAVED, watch=altered(lambda finding: replace(finding, saved=replace(finding.saved, expression="x0")))
    )


def test_a_false_alarm_is_caught():
    """A finding from another script, in one where nothing is overwritten."""
    silent = run(SILENT, unclobber.watch).findings

    class Alarm(unclobber.watch):
        findings = silent

    assert ("watch", "findings") in kinds(HARMLESS, watch=Alarm)


@needs("top hooks")
def test_what_is_left_behind_is_caught():
    """Saved-tensor hooks that nobody takes away."""
    hooks = torch.autograd.graph.saved_tensors_hooks(torch.Tensor.detach, lambda tensor: tensor)

    @contextmanager
    def leaves_hooks():
        hooks.__enter__()
        yield

    try:
        assert ("guard", "rest") in kinds(HARMLESS, guard=leaves_hooks)
    finally:
        hooks.__exit__()


def test_table():
    """A row for each mode."""
    counts = judge(SAVED).tally()
    assert tally_table(counts).splitlines()[-1].split() == ["audit", "1", "1", "0", "0", "0", "0", "0", "0"]
