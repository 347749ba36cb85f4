"""Programs that random search once found, each with the name of what was wrong."""

import pytest
from test_guard_values import fault
from test_watch_parity import disagreement

from oracles import Alias, Backward, Compute, Leaf, Loss, Program, View, Write

ZERO = ("{0}.zero_()", "torch.zeros_like({0})")

NAMED = {
    "one element with the stride of a row": Program((
        Leaf("x", (3,)),
        View("v", "x", "{0}[::2][::2]"),
        Loss("loss", (("v", "squares"),)),
        Write("x", "{0}", "detach", *ZERO),
        Backward("loss", retain=False),
    )),
    "an expanded save": Program((
        Leaf("x", (3,)),
        View("v", "x", "{0}.unsqueeze(0).expand(2, -1)"),
        Loss("loss", (("v", "cosine"),)),
        Write("x", "{0}", "no_grad", "{0}.exp_()", "{0}.exp()"),
        Backward("loss", retain=False),
    )),
    "an expanded save, written in part": Program((
        Leaf("x", (3,)),
        View("v", "x", "{0}.unsqueeze(0).expand(2, -1)"),
        Loss("loss", (("v", "cosine"),)),
        Write("x", "{0}[1]", "detach", *ZERO),
        Backward("loss"),
        Write("x", "{0}[1:]", "detach", *ZERO),
        Backward("loss", retain=False),
    )),
    "an expanded save through a detached alias": Program((
        Leaf("x", (3, 3)),
        Alias("shadow", "x", "detach"),
        View("wide", "x", "{0}[0].unsqueeze(0).expand(2, -1)"),
        Compute("y", "{0} * {0}", ("wide",)),
        Write("shadow", "{0}[:, 2]", "grad", "{0}.mul_(0.5)", "{0}.mul(0.5)"),
        Loss("loss", (("y", "sum"),)),
        Backward("loss", retain=False),
    )),
}  # fmt: skip


@pytest.mark.parametrize("program", NAMED.values(), ids=NAMED)
def test_guard(program):
    """The gradients of the program as written."""
    assert fault(program) is None, fault(program)


@pytest.mark.parametrize("program", NAMED.values(), ids=NAMED)
def test_watch(program):
    """Torch's own verdict."""
    assert disagreement(program) is None, disagreement(program)
