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
