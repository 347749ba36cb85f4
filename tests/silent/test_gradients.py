"""UC104: a gradient that is changed in place while another consumer still waits for it."""

import pytest
import torch
from _programs import Program, assert_told, watched

FUNCTION = """\
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2
        @staticmethod
        def backward(ctx, g):
            return g.mul_(2)  # write
"""

WRONG = {
    "a hook on a leaf": """\
    a, b = leaf(), leaf()
    y = a + b
    def hook(g):
        g.mul_(2)  # write
    a.register_hook(hook)
    (y * y).sum().backward()  # needed
    gradient = b.grad
""",
    "a hook on an intermediate tensor": """\
    a, b = leaf(), leaf()
    q, p = b * 1, a * 1
    y = p + q
    def hook(g):
        g.zero_()  # write
    p.register_hook(hook)
    (y * y).sum().backward()  # needed
    gradient = b.grad
""",
    "a hook that writes through .data": """\
    a, b = leaf(), leaf()
    y = a + b
    def hook(g):
        g.data.mul_(2)  # write
    a.register_hook(hook)
    (y * y).sum().backward()  # needed
    gradient = b.grad
""",
    "a residual connection": FUNCTION
    + """\
    a = leaf()
    y = Double.apply(a) + a
    (y * y).sum().backward()  # needed
    gradient = a.grad
""",
}


def right(body: str) -> torch.Tensor:
    """The gradient with the hook or backward that writes a new tensor instead."""
    text = body.replace("g.mul_(2)  # write", "return g * 2").replace("return return", "return")
    text = text.replace("g.data.mul_(2)  # write", "return g * 2").replace(
        "g.zero_()  # write", "return g * 0"
    )
    assert text != body
    return Program.of(text).run()


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_changed_shared_gradient_is_found(body):
    program = Program.of(body)
    assert not torch.equal(program.run(), right(body))
    assert_told(program, watched(program), "UC104")


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_guard_gives_each_consumer_its_own(body):
    program = Program.of(body)
    told = watched(program, policy="guard")
    assert torch.equal(told.gradient, right(body))
    assert [finding.code for finding in told.findings] == ["UC104"]


def test_strict_raises():
    assert watched(Program.of(WRONG["a residual connection"]), strict=True).raised


HARMLESS = {
    "nobody else waits": """\
    a = leaf()
    def hook(g):
        g.mul_(2)
    a.register_hook(hook)
    (a * a).sum().backward()
    gradient = a.grad
""",
    "the other one was served": """\
    a, b = leaf(), leaf()
    y = b + a
    def hook(g):
        g.mul_(2)
    a.register_hook(hook)
    (y * y).sum().backward()
    gradient = b.grad
""",
    "a new tensor": """\
    a, b = leaf(), leaf()
    y = a + b
    a.register_hook(lambda g: g * 2)
    (y * y).sum().backward()
    gradient = b.grad
""",
    "the same values": """\
    a, b = leaf(), leaf()
    y = a + b
    def hook(g):
        g.clamp_(-1000, 1000)
    a.register_hook(hook)
    (y * y).sum().backward()
    gradient = b.grad
""",
    "a chain": FUNCTION.replace("  # write", "")
    + """\
    a = leaf()
    y = Double.apply(a * 2) * 3
    (y * y).sum().backward()
    gradient = a.grad
""",
    "kept by the user": """\
    kept = []
    a = leaf()
    b = a * 1
    def hook(g):
        kept.append(g)
        g.mul_(2)
    b.register_hook(hook)
    (b * b).sum().backward()
    gradient = a.grad
""",
    "double backward": FUNCTION.replace("  # write", "").replace("g.mul_(2)", "g * 2")
    + """\
    a = leaf()
    y = Double.apply(a) + a
    (gradient,) = torch.autograd.grad((y * y).sum(), a, create_graph=True)
    (gradient,) = torch.autograd.grad((gradient * gradient).sum(), a)
""",
}


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_what_does_no_harm_is_no_finding(body):
    program = Program.of(body)
    told = watched(program, strict=True)
    assert told.findings == ()
    assert torch.equal(told.gradient, program.run())
