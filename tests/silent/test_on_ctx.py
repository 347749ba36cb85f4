"""UC103: what a custom Function keeps on ctx, and what it marks dirty."""

import pytest
import torch
from _programs import Program, assert_told, corpus, watched

WRONG, HARMLESS = corpus("kept on ctx")


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_changed_attribute_that_backward_reads_is_found(body):
    program = Program.whole(body)
    assert not torch.equal(program.run(), program.without_writes().run())
    assert_told(program, watched(program), "UC103")


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_guard_hands_backward_what_forward_left(body):
    program = Program.whole(body)
    told = watched(program, policy="guard")
    assert torch.equal(told.gradient, program.without_writes().run())
    assert [finding.repaired for finding in told.findings] == [True]


def test_strict_raises():
    assert watched(Program.whole(WRONG["UC103/overwritten"]), strict=True).raised


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_what_does_no_harm_is_no_finding(body):
    program = Program.whole(body)
    told = watched(program, strict=True, fingerprint=1.0)
    assert told.findings == ()
    assert torch.equal(told.gradient, program.run())


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_guard_gets_into_no_ones_way(body):
    program = Program.whole(body)
    told = watched(program, policy="guard")
    assert told.findings == ()
    assert torch.equal(told.gradient, program.run())


def test_what_was_lent_is_taken_back():
    """What is of a graph keeps its identity and reads as forward left it, for as long as backward runs."""
    program = Program.of("""\
    class Local(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.inner = x.detach().requires_grad_()  # saved
                ctx.y = ctx.inner.exp()
            kept.append(ctx.inner)
            return ctx.y.detach().clone()
        @staticmethod
        def backward(ctx, g):
            return torch.autograd.grad(ctx.y, ctx.inner, g)[0] * ctx.inner
    kept = []
    x = leaf()
    h = x * 1
    y = Local.apply(h)
    h.zero_()  # write
    assert kept[0].data_ptr() == h.data_ptr()
    y.sum().backward()  # needed
    assert kept[0].data_ptr() == h.data_ptr()
    gradient = x.grad
""")
    told = watched(program, policy="guard")
    assert [(finding.code, finding.repaired) for finding in told.findings] == [("UC103", True)]
    assert torch.equal(told.gradient, program.without_writes().run())


DIRTY = """\
    class Halve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.div_(2)  # write
            ctx.mark_dirty(x)
            return x.clone()
        @staticmethod
        def backward(ctx, g):
            return g / 2
    x = leaf()
    y = Halve.apply(x * 1)  # needed
"""


def test_a_dirty_tensor_that_is_not_returned():
    """torch refuses without a line; the finding has the write, the call and torch's sentence."""
    program = Program.of(DIRTY)
    with pytest.raises(RuntimeError, match="marked as dirty"):
        program.run()
    told = watched(program)
    assert told.raised
    assert_told(program, told, "UC103")
    assert told.findings[0].saved is None
    assert "marked as dirty" in told.findings[0].torch_message


def test_of_two_dirty_tensors_none_is_blamed():
    """Which of them was not returned can't be known."""
    text = DIRTY.replace("forward(ctx, x):", "forward(ctx, x, z):").replace(
        "mark_dirty(x)", "mark_dirty(x, z)"
    )
    program = Program.of(text.replace("apply(x * 1)", "apply(x * 1, x * 2)"))
    told = watched(program)
    assert [finding.code for finding in told.findings] == ["UC103"]
    assert told.findings[0].writes == ()


def test_functions_are_as_before_after_the_session():
    home = torch.autograd.function.BackwardCFunction
    before = (home.apply, home.__setattr__, torch.Tensor.register_hook)
    watched(Program.whole(WRONG["UC103/overwritten"]))
    assert (home.apply, home.__setattr__, torch.Tensor.register_hook) == before
    assert "apply" not in vars(torch.autograd.function._SingleLevelFunction)
