"""Programs with a name, for tests of the tests."""

import pytest

from oracles import Backward, Compute, Leaf, Loss, Program, Write


@pytest.fixture
def overwritten_exp() -> Program:
    """``exp`` saves its result, and the whole result is overwritten before backward."""
    return Program((
        Leaf("x", (3,)),
        Compute("y", "{0}.exp()", ("x",)),
        Write("y", "{0}", "grad", "{0}.mul_({1})", "{0} * {1}", ("x",)),
        Loss("loss", (("y", "sum"),)),
        Backward("loss", retain=False),
    ))  # fmt: skip


@pytest.fixture
def offset_view() -> Program:
    """The square's operand is overwritten through a view that starts elsewhere in the storage."""
    return Program((
        Leaf("w", (4,)),
        Compute("a", "{0}.exp()", ("w",)),
        Loss("s", (("a", "squares"),)),
        Write("a", "{0}[2]", "grad", "{0}.zero_()", "torch.zeros_like({0})"),
        Backward("s", retain=False),
    ))  # fmt: skip
