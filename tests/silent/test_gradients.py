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
    "a hook before a module's backward": """\
    a, b = leaf(), leaf()
    module = torch.nn.Tanh()
    def hook(module, gradients):
        gradients[0].mul_(2)  # write
    module.register_full_backward_pre_hook(hook)
    y = b * 1 + module(a)
    (y * y).sum().backward()  # needed
    gradient = b.grad
""",
    "such a hook that returns what it wrote to": """\
    a, b = leaf(), leaf()
    module = torch.nn.Tanh()
    def hook(module, gradients):
        return [
            gradients[0].mul_(2)  # write
        ]
    module.register_full_backward_pre_hook(hook)
    y = b * 1 + module(a)
    (y * y).sum().backward()  # needed
    gradient = torch.stack([a.grad, b.grad])
""",
    "a hook after a module's backward": """\
    a, b = leaf(), leaf()
    shift = b * 1
    class Shift(torch.nn.Module):
        def forward(self, x):
            return shift + x
    module = Shift()
    def hook(module, grad_input, grad_output):
        grad_input[0].mul_(2)  # write
    module.register_full_backward_hook(hook)
    y = module(a * 1)
    (y * y).sum().backward()  # needed
    gradient = torch.stack([a.grad, b.grad])
""",
    "a hook whose gradient is a view of another's": """\
    a, b = leaf(), leaf(1)
    q, p = a * 1, b * 1
    def hook(g):
        return g.mul_(2)  # write
    p.register_hook(hook)
    y = q.sum() + p.sum()
    (y * y).backward()  # needed
    gradient = a.grad
""",
    "a part of a gradient that is another's as well": """\
    a, b = leaf(), leaf()
    q, p = a * 1, b * 1
    def hook(g):
        return g.mul_(2)  # write
    p.register_hook(hook)
    y = torch.cat([q + p, b])
    (y * y).sum().backward()  # needed
    gradient = a.grad
""",
    "a gradient that is asked for on the way to another": """\
    x = leaf()
    h = x * 2
    def hook(g):
        return g.mul_(2)  # write
    h.register_hook(hook)
    _, gradient = torch.autograd.grad((h * h).sum(), [x, h])  # needed
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
    body = body.replace("            gradients[0].mul_(2)  # write", "            gradients[0] * 2")
    for given in ("gradients", "grad_input"):
        body = body.replace(f"{given}[0].mul_(2)  # write", f"return ({given}[0] * 2,)")
    text = body.replace("g.mul_(2)  # write", "return g * 2").replace("return return", "return")
    text = text.replace("g.data.mul_(2)  # write", "return g * 2").replace(
        "g.zero_()  # write", "return g * 0"
    )
    assert "write" not in text
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
    "a module's output that nobody else waits for": """\
    a = leaf()
    module = torch.nn.Tanh()
    def hook(module, gradients, *more):
        gradients[0].mul_(2)
    module.register_full_backward_pre_hook(hook)
    module.register_full_backward_hook(hook)
    (module(a * 1) * a).sum().backward()
    gradient = a.grad
""",
    "what backward was called with": FUNCTION.replace("  # write", "")
    + """\
    a = leaf()
    module = torch.nn.Identity()
    def hook(module, gradients, *more):
        gradients[0].mul_(2)
    module.register_full_backward_pre_hook(hook)
    module.register_full_backward_hook(hook)
    y = a * 2
    y.register_hook(lambda g: hook(None, [g]))
    torch.autograd.backward([y, module(a), Double.apply(a)], [torch.ones(4), torch.ones(4), torch.ones(4)])
    gradient = a.grad
""",
    "the same in a reentrant checkpoint": FUNCTION.replace("  # write", "")
    + """\
    from torch.utils.checkpoint import checkpoint
    a = leaf()
    checkpoint(Double.apply, a * 1, use_reentrant=True).backward(torch.ones(4))
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
    "the gradient of a leaf is asked for": """\
    x = leaf()
    x.register_hook(lambda g: g.mul_(2))
    (gradient,) = torch.autograd.grad((x * x).sum(), [x])
""",
    "the gradient of an intermediate tensor is asked for, and another beside it": """\
    x, w = leaf(), leaf()
    h = x * 2
    h.register_hook(lambda g: g.mul_(2))
    gradient, _ = torch.autograd.grad((h * h * w).sum(), [h, w])
""",
    "a view of a gradient that nobody waits for": """\
    a = leaf(1)
    p = a * 1
    p.register_hook(lambda g: g.mul_(2))
    (p.sum() * 2).backward()
    gradient = a.grad
""",
    "a view of another type": """\
    a = leaf()
    p = torch.complex(a, a)
    p.register_hook(lambda g: g.mul_(2))
    (p.real * 2).sum().backward()
    gradient = a.grad
""",
    "a part of a gradient whose other part somebody waits for": """\
    a = leaf(1)
    p = a * 1
    p.register_hook(lambda g: g.mul_(2))
    torch.cat([p, a]).square().sum().backward()
    gradient = a.grad
""",
    "a view of the gradient that backward begins with": """\
    a = leaf(1)
    p = a * 1
    p.register_hook(lambda g: g.mul_(2))
    p.sum().backward()
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
