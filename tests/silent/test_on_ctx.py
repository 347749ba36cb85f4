"""UC103: what a custom Function keeps on ctx, and what it marks dirty."""

import pytest
import torch
from _programs import Program, assert_told, watched

SCALE = """\
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, s):
            ctx.s = s  # saved
            return x * s
        @staticmethod
        def backward(ctx, g):
            return g * ctx.s, None
    scale = Scale.apply
    x, s = leaf(), torch.ones(4)
"""

WRONG = {
    "overwritten": SCALE
    + """\
    y = scale(x, s)
    s[0] = 3  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
    "through .data": SCALE
    + """\
    y = scale(x, s)
    s.data.mul_(2)  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
    "through an expanded tensor": SCALE
    + """\
    row = s.view(1, 4).expand(2, 4)
    y = scale(x.expand(2, 4), row)
    row.data.select(0, 0).mul_(2)  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
    "given memory that is expanded": SCALE
    + """\
    y = scale(x, s * torch.arange(4))
    s = y.grad_fn.s
    s.data = torch.zeros(1).expand(4)  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
    "given other memory": SCALE
    + """\
    y = scale(x, s)
    s.data = torch.zeros(4)  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
    "in a list": """\
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, *factors):
            ctx.factors = list(factors)  # saved
            return x * factors[0] * factors[1]
        @staticmethod
        def backward(ctx, g):
            a, b = ctx.factors
            return g * a * b, None, None
    x, s = leaf(), torch.ones(4)
    y = Scale.apply(x, torch.ones(4), s)
    s.fill_(2)  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
    "set up apart from forward": """\
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x, s):
            return x * s
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.s = inputs[1]  # saved
        @staticmethod
        def backward(ctx, g):
            return g * ctx.s, None
    x, s = leaf(), torch.ones(4)
    y = Scale.apply(x, s)
    s.add_(1)  # write
    y.sum().backward()  # needed
    gradient = x.grad
""",
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_changed_attribute_that_backward_reads_is_found(body):
    program = Program.of(body)
    assert not torch.equal(program.run(), program.without_writes().run())
    assert_told(program, watched(program), "UC103")


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_guard_hands_backward_what_forward_left(body):
    program = Program.of(body)
    told = watched(program, policy="guard")
    assert torch.equal(told.gradient, program.without_writes().run())
    assert [finding.repaired for finding in told.findings] == [True]


def test_strict_raises():
    assert watched(Program.of(WRONG["overwritten"]), strict=True).raised


HARMLESS = {
    "the same values": SCALE
    + "    y = scale(x, s)\n    s[0] = 1\n    y.sum().backward()\n    gradient = x.grad\n",
    "after backward": SCALE + "    scale(x, s).sum().backward()\n    s[0] = 3\n    gradient = x.grad\n",
    "filled after it was put there": """\
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.s = torch.empty(4)
            ctx.s.fill_(2)
            return x * 2
        @staticmethod
        def backward(ctx, g):
            return g * ctx.s
    x = leaf()
    Scale.apply(x).sum().backward()
    gradient = x.grad
""",
    "only its shape is read": """\
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, s):
            ctx.s = s
            return x * 2
        @staticmethod
        def backward(ctx, g):
            return torch.full_like(ctx.s, 2) * g / len(ctx.s) * ctx.s.shape[0], None
    x, s = leaf(), torch.ones(4)
    y = Scale.apply(x, s)
    s[0] = 3
    y.sum().backward()
    gradient = x.grad
""",
    "a scratch buffer": """\
    scratch = torch.zeros(4)
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.scratch = scratch
            return x * 2
        @staticmethod
        def backward(ctx, g):
            return ctx.scratch.copy_(g).mul_(2).clone()
    x = leaf()
    for _ in range(2):
        y = Scale.apply(x)
        scratch.add_(1)
        y.sum().backward()
    gradient = x.grad
""",
    "other elements of a cache": """\
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, cache, at):
            ctx.cache, ctx.at = cache, at
            cache[at] = x.detach()
            return x * cache[at]
        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.cache[ctx.at], None, None
    x, cache = leaf(), torch.zeros(3, 4)
    sum(Scale.apply(x, cache, at).sum() for at in range(3)).backward()
    gradient = x.grad
""",
    "a graph of its own, asked for its leaf": """\
    class Local(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.inner = x.detach().requires_grad_()
                ctx.y = ctx.inner.exp()
            return ctx.y.detach().clone()
        @staticmethod
        def backward(ctx, g):
            return torch.autograd.grad(ctx.y, ctx.inner, g)[0]
    x = leaf()
    h = x * 1
    y = Local.apply(h)
    h.relu_()
    (y + h).sum().backward()
    gradient = x.grad
""",
    "a graph of its own, asked from its end": """\
    class Local(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.inner = x.detach().clone().requires_grad_()
                ctx.y = ctx.inner * 3
            return ctx.y.detach()
        @staticmethod
        def backward(ctx, g):
            ctx.y.backward(g)
            return ctx.inner.grad
    x = leaf()
    y = torch.relu_(Local.apply(x * 1))
    y.sum().backward()
    gradient = x.grad
""",
}


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_what_does_no_harm_is_no_finding(body):
    program = Program.of(body)
    told = watched(program, strict=True, fingerprint=1.0)
    assert told.findings == ()
    assert torch.equal(told.gradient, program.run())


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_guard_gets_into_no_ones_way(body):
    program = Program.of(body)
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
    watched(Program.of(WRONG["overwritten"]))
    assert (home.apply, home.__setattr__, torch.Tensor.register_hook) == before
    assert "apply" not in vars(torch.autograd.function._SingleLevelFunction)
