"""UC104: a gradient that is changed in place while another consumer still waits for it."""

import pytest
import torch
from _programs import Program, assert_told, corpus, watched

WRONG, HARMLESS = corpus("shared gradients")


def right(body: str) -> torch.Tensor:
    """The gradient with the hook or backward that writes a new tensor instead."""
    body = body.replace("        gradients[0].mul_(2)  # write", "        gradients[0] * 2")
    for given in ("gradients", "grad_input"):
        body = body.replace(f"{given}[0].mul_(2)  # write", f"return ({given}[0] * 2,)")
    text = body.replace("g.mul_(2)  # write", "return g * 2").replace("return return", "return")
    text = text.replace("g.data.mul_(2)  # write", "return g * 2").replace(
        "g.zero_()  # write", "return g * 0"
    )
    assert "write" not in text
    return Program.whole(text).run()


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_changed_shared_gradient_is_found(body):
    program = Program.whole(body)
    assert not torch.equal(program.run(), right(body))
    assert_told(program, watched(program), "UC104")


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_guard_gives_each_consumer_its_own(body):
    program = Program.whole(body)
    told = watched(program, policy="guard")
    assert torch.equal(told.gradient, right(body))
    assert [finding.code for finding in told.findings] == ["UC104"]


def test_strict_raises():
    """A gradient that a hook overwrites raises under `strict`."""
    assert watched(Program.whole(WRONG["UC104/a_residual_connection"]), strict=True).raised


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_what_does_no_harm_is_no_finding(body):
    program = Program.whole(body)
    told = watched(program, strict=True)
    assert told.findings == ()
    assert torch.equal(told.gradient, program.run())


HALVES = {
    "a custom Function": """\
class Halves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3
    @staticmethod
    def backward(ctx, *gradients):
        WRITE
        return gradients[0] * 2 + gradients[1] * 3
whole = torch.cat(Halves.apply(x))
""",
    "a module's pre-hook": """\
class Halves(torch.nn.Module):
    def forward(self, x):
        return x * 2, x * 3
def hook(module, gradients):
    WRITE
module = Halves()
module.register_full_backward_pre_hook(hook)
whole = torch.cat(module(x))
""",
    "a module's hook": """\
class Cat(torch.nn.Module):
    def forward(self, a, b):
        return torch.cat((a, b))
def hook(module, gradients, grad_output):
    WRITE
module = Cat()
module.register_full_backward_hook(hook)
whole = module(x * 2, x * 3)
""",
}
HALF_WRITES = {
    "the first": "gradients[0].mul_(10)",
    "the second": "gradients[1].mul_(10)",
    "both": "gradients[0].mul_(10); gradients[1].zero_()",
}


@pytest.mark.parametrize("write", HALF_WRITES.values(), ids=HALF_WRITES)
@pytest.mark.parametrize("halves", HALVES.values(), ids=HALVES)
def test_guard_restores_each_part_of_a_shared_gradient(halves, write):
    """Parts of one gradient's memory get their own values back, and the callback's result stays."""
    text = f"""\
import torch
leaf, x = torch.ones(6, requires_grad=True), torch.ones(3, requires_grad=True)
w = leaf * 1
{halves}
((whole + w) * torch.arange(1.0, 7.0)).sum().backward()
gradient = torch.cat((leaf.grad, x.grad))
"""
    plain = Program.whole(text.replace("WRITE", write)).run()
    told = watched(Program.whole(text.replace("WRITE", write)), policy="guard")
    assert told.gradient[:6].tolist() == [1, 2, 3, 4, 5, 6]
    assert torch.equal(told.gradient[6:], plain[6:])
    assert told.findings == ()
