"""UC105: a checkpoint's recomputation that reads other values than its forward did."""

import pytest
import torch
from _programs import Program, assert_told, corpus, places, watched
from torch.utils.checkpoint import checkpoint

from unclobber import InplaceError, SilentWriteWarning, watch
from unclobber.report._text import to_text
from unclobber.session import Session

START = """\
    from torch.utils.checkpoint import checkpoint
    x = leaf()
"""

WRONG, HARMLESS = corpus("recomputation")


WRONG |= {
    f"{name}, reentrant": body.replace("use_reentrant=False", "use_reentrant=True")
    for name, body in WRONG.items()
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_changed_tensor_that_is_read_again_is_found(body):
    program = Program.whole(body)
    assert not torch.equal(program.run(), program.without_writes().run())
    assert_told(program, watched(program), "UC105")


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_guard_refuses_what_it_cannot_mend(body):
    """The values are read by the program itself: there is nothing to hand it."""
    assert watched(Program.whole(body), policy="guard").raised


def test_strict_raises():
    """What a checkpoint reads again and was overwritten raises under `strict`."""
    assert watched(Program.whole(WRONG["UC105/a_closure"]), strict=True).raised


def test_all_weights_that_one_line_spoils_are_of_one_finding():
    """They are several tensors of one backward, not several times."""
    block = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))
    with watch() as watching:
        loss = checkpoint(block, torch.ones(2, 3, requires_grad=True), use_reentrant=False).sum()
        for parameter in block.parameters():
            parameter.data.mul_(2)
        with pytest.warns(SilentWriteWarning):
            loss.backward()
    (finding,) = (finding for finding in watching.findings if finding.code == "UC105")
    spoilt = {finding.saved.name, *(save.name for save in finding.also)}
    assert spoilt == {"block.0.weight", "block.0.bias", "block.2.weight"}


HARMLESS |= {
    f"{name}, reentrant": body.replace("use_reentrant=False", "use_reentrant=True")
    for name, body in HARMLESS.items()
}


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_what_does_no_harm_is_no_finding(body):
    program = Program.whole(body)
    told = watched(program, strict=True)
    assert told.findings == ()
    assert torch.equal(told.gradient, program.run())


def test_a_checkpoint_saved_its_input():
    """Not the operation that asks for it first when the code runs again."""
    program = Program.of(
        START
        + """\
    h = x * 1
    y = checkpoint(lambda t: t.repeat(2).sin(), h, use_reentrant=False)  # saved
    h.mul_(2)  # write
    y.sum().backward()  # needed
    gradient = x.grad
"""
    )
    told = watched(program)
    (finding,) = told.findings
    assert (finding.code, finding.saved.operation, finding.saved.shape) == ("UC101", "checkpoint", (4,))
    assert places(finding)[0] in program.lines("saved")


def test_a_checkpoints_input_has_no_name_that_its_line_lacks():
    """The caller's `out`, bound since, is the same tensor: advice to clone it would be a NameError there."""

    def forward(x):
        x = x * 1
        return checkpoint(lambda t: t.add_(t.clone().sin()), x, use_reentrant=False)

    with watch() as watching:
        out = forward(torch.ones(3, requires_grad=True))
        with pytest.raises(InplaceError):
            out.sum().backward()
    (finding,) = watching.findings
    assert finding.saved.expression is None
    assert "`out`" not in finding.message


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("result", ["(t * c).exp()", "t.sin() * c"])
def test_the_line_that_reads_it_again_is_told(reentrant, result):
    program = Program.of(
        START
        + f"""\
    c = torch.ones(4)
    def segment(t):
        t = t.cos()
        return {result}
    y = checkpoint(segment, x, use_reentrant={reentrant})
    c += 1
    y.sum().backward()
    gradient = x.grad
"""
    )
    (finding,) = watched(program).findings
    line = next(n for n, text in enumerate(program.text.splitlines(), 1) if f"return {result}" in text)
    assert f"the recomputation reads it again at line {line}: `return {result}`" in finding.notes
    assert "is saved in" not in to_text(finding)


@pytest.mark.parametrize("name", ["UC105/an_optimizer_s_step", "UC105/an_optimizer_s_step, reentrant"])
def test_a_library_that_reads_it_again_has_no_line(name):
    (finding,) = watched(Program.whole(WRONG[name])).findings
    assert not any("reads it again" in note for note in finding.notes)


def test_an_input_that_hooks_of_the_programs_keep_is_the_checkpoints():
    """The node that asks for it first has not saved it."""
    w = torch.rand(4, requires_grad=True)
    with Session(warn=False) as session:
        with torch.autograd.graph.save_on_cpu():
            z = (w * 2).sigmoid()
            out = checkpoint(lambda t: t * t.cos(), z, use_reentrant=False)
        z.detach().add_(1)
        out.sum().backward()
    assert {finding.saved.operation for finding in session.findings} == {"sigmoid", "checkpoint"}


@pytest.mark.parametrize("again", [False, True])
def test_a_reentrant_checkpoint_reaches_what_it_read_until_its_last_backward(again):
    """Its result keeps its code for longer, and the step that follows would meet what that code reads."""
    net, x = torch.nn.Linear(3, 3), torch.rand(2, 3, requires_grad=True)
    with Session("watch", warn=False) as session:
        loss = checkpoint(net, x, use_reentrant=True, preserve_rng_state=False).sum()
        loss.backward(retain_graph=again)
        assert len(session.ledger.saves()) == (3 if again else 0)
        torch.optim.SGD(net.parameters(), lr=1.0).step()
        if again:
            loss.backward()
    assert [finding.code for finding in session.findings] == ["UC105"] * again


@pytest.mark.parametrize("draws", [True, False])
def test_random_numbers_are_a_reason_for_code_that_draws_some(draws):
    """Those of the code around a checkpoint have moved on, too."""
    torch.manual_seed(0)  # in one of fifty runs both masks would have as many elements
    w, seen = torch.rand(1000, requires_grad=True), []

    def block(x):
        seen.append(x)
        return x[torch.rand(1000) > 0.5].exp() if draws else x[: 500 + len(seen)].exp()

    def step():
        kept = checkpoint(block, w, use_reentrant=False, preserve_rng_state=False)
        torch.nn.functional.dropout(kept).sum().backward()

    with pytest.raises(InplaceError) as raised, watch():
        step()
    assert ("random numbers of torch are others" in str(raised.value)) == draws
