"""UC103: what a custom Function keeps on ctx, and what it marks dirty."""

import textwrap

import pytest
import torch
from _programs import Program, assert_told, corpus, watched

import unclobber

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
    assert [fix.guard for fix in watched(program).findings[0].fixes] == [False, True]


def test_strict_raises():
    """A tensor on `ctx` that was overwritten raises under `strict`."""
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


SCALE = """\
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, s):
            ctx.s = s  # saved
            return x * s
        @staticmethod
        def backward(ctx, g):
            return g * ctx.s, None
    s = torch.full((4,), 2.0)
    x = leaf()
    y = Scale.apply(x, s)
    s.fill_(3)  # write
    y.sum().backward()  # needed
    gradient = x.grad
"""
IN_TWO = """\
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x, s):
            return x * s
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.s = inputs[1]  # saved
"""
SCALES = {
    "in one": SCALE,
    "set up apart": IN_TWO + SCALE[SCALE.index("        @staticmethod\n        def backward") :],
}


LEAF = "torch.ones(4, requires_grad=True)"


@pytest.mark.parametrize("body", SCALES.values(), ids=SCALES)
def test_apply_that_was_bound_before_the_session(body):
    scope = {}
    definition, use = body.replace("    s = torch", "|    s = torch").split("|")
    exec(f"import torch\n{textwrap.dedent(definition)}", scope)
    scope["apply"] = scope["Scale"].apply
    text = textwrap.dedent(use).replace("leaf()", LEAF)
    with unclobber.guard() as guard:
        exec(text.replace("Scale.apply", "apply"), scope)
    assert scope["gradient"].tolist() == [2.0] * 4
    assert [finding.code for finding in guard.findings] == ["UC103"]


@pytest.mark.parametrize("body", SCALES.values(), ids=SCALES)
def test_a_class_has_its_own_methods_back_after_the_session(body):
    scope = {}
    exec(
        f"import torch\n{textwrap.dedent(body).replace('leaf()', 'torch.ones(4, requires_grad=True)')}", scope
    )
    before = dict(vars(scope["Scale"]))
    with unclobber.guard():
        scope["Scale"].apply(scope["x"], scope["s"])
        assert vars(scope["Scale"]) != before
        assert scope["Scale"].forward is before["forward"].__func__
    assert vars(scope["Scale"]) == before


def test_a_forward_that_the_program_has_exchanged_meanwhile_stays():
    x, s = torch.ones(4, requires_grad=True), torch.full((4,), 2.0)

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, s):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.s, None

    def other(ctx, x, s):
        ctx.s = s
        return x * s

    with unclobber.guard() as guard:
        Scale.apply(x, s)
        Scale.forward = staticmethod(other)
        y = Scale.apply(x, s)
        s.fill_(3)
        y.sum().backward()
    assert x.grad.tolist() == [2.0] * 4
    assert [finding.code for finding in guard.findings] == ["UC103"]
    assert Scale.forward is other


def test_a_forward_that_calls_anothers_forward():
    x, s = torch.ones(4, requires_grad=True), torch.full((4,), 2.0)

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, s):
            ctx.s = s
            return x * s

        @staticmethod
        def backward(ctx, g):
            return g * ctx.s, None

    class Twice(Scale):
        @staticmethod
        def forward(ctx, x, s):
            return Scale.forward(ctx, x, s) + Scale.apply(x, s)

    with unclobber.guard() as guard:
        y = Twice.apply(x, s)
        s.fill_(3)
        y.sum().backward()
    assert x.grad.tolist() == [2.0] * 4
    assert [finding.code for finding in guard.findings] == ["UC103"]


def test_functions_are_as_before_after_the_session():
    unclobber.uninstall()
    home = torch.autograd.function.BackwardCFunction
    before = (home.__init__, home.apply, home.__setattr__, torch.Tensor.register_hook)
    watched(Program.whole(WRONG["UC103/overwritten"]))
    unclobber.uninstall()
    assert (home.__init__, home.apply, home.__setattr__, torch.Tensor.register_hook) == before
