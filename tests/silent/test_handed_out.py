"""Memory that NumPy was given: what it changes there is found and guarded, and the line that gave it named.

No operation of torch's sees such a write, so that its own line is not known without ``--fingerprint``.
"""

import pytest
import torch

from silent._programs import Program, watched

WRONG = {
    "numpy": (
        "UC102",
        """
        w = leaf()
        y = w.exp()  # saved
        a = y.detach().numpy()  # given
        a *= 0  # write
        y.sum().backward()  # needed
        gradient = w.grad
        """,
    ),
    "asarray": (
        "UC102",
        """
        import numpy as np
        w = leaf()
        y = w.exp()  # saved
        a = np.asarray(y.detach()[1:])  # given
        a[0] = 5  # write
        y.sum().backward()  # needed
        gradient = w.grad
        """,
    ),
    "twice": (
        "UC102",
        """
        w = leaf()
        y = w.exp()  # saved
        first = y.detach().numpy()
        first[0] = 7  # write
        second = y.detach().numpy()  # given
        second[1] = 7  # write
        y.sum().backward()  # needed
        gradient = w.grad
        """,
    ),
    "on ctx": (
        "UC103",
        """
        class Exp(torch.autograd.Function):
            @staticmethod
            def forward(ctx, w):
                ctx.result = w.exp()  # saved
                return ctx.result.clone()
            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.result
        w = leaf()
        y = Exp.apply(w)
        a = y.grad_fn.result.numpy()  # given
        a[0] = 9  # write
        y.sum().backward()  # needed
        gradient = w.grad
        """,
    ),
}
RIGHT = {
    "only read": """
        w = leaf()
        y = w.exp()
        assert y.detach().numpy().sum() > 0
        y.sum().backward()
        gradient = w.grad
        """,
    "put back": """
        w = leaf()
        y = w.exp()
        a = y.detach().numpy()
        a += 1
        a -= 1
        a[:] = w.detach().exp().numpy()
        y.sum().backward()
        gradient = w.grad
        """,
    "a copy": """
        w = leaf()
        y = w.exp()
        a = y.detach().clone().numpy()
        a *= 0
        y.sum().backward()
        gradient = w.grad
        """,
}


@pytest.mark.parametrize("name", WRONG)
def test_the_line_that_gave_the_memory_is_named(name):
    code, text = WRONG[name]
    program = Program.of(text)
    assert not torch.equal(program.run(), program.without_writes().run())
    (finding,) = watched(program).findings
    assert (finding.code, finding.writes) == (code, ())
    assert [finding.saved.site.line] == program.lines("saved")
    assert [finding.needed.site.line] == program.lines("needed")
    (given,) = program.lines("given")
    assert f"its memory was given to NumPy by line {given} of " in finding.notes[0]


@pytest.mark.parametrize("name", WRONG)
def test_guard_gives_the_right_gradient(name):
    program = Program.of(WRONG[name][1])
    told = watched(program, policy="guard")
    assert torch.equal(told.gradient, program.without_writes().run())
    assert [finding.repaired for finding in told.findings] == [True]


@pytest.mark.parametrize("name", RIGHT)
def test_unchanged_memory_is_no_finding(name):
    assert watched(Program.of(RIGHT[name])).findings == ()


def test_a_write_that_torch_sees_is_told_as_ever():
    """The event that gave the memory away is no write, neither in the finding nor in the count."""
    program = Program.of("""
        w = leaf()
        y = w.exp()  # saved
        y.detach().numpy()
        y.data.mul_(0)  # write
        y.sum().backward()  # needed
        gradient = w.grad
    """)
    (finding,) = watched(program).findings
    assert [write.site.line for write in finding.writes] == program.lines("write")


def test_memory_that_was_given_before_the_save_is_not_seen():
    """docs/limits.md says so: only a fingerprint is taken at the save."""
    program = Program.of("""
        w, c = leaf(), torch.ones(4)
        a = c.numpy()
        y = w * c
        a[:] = 7  # write
        y.sum().backward()
        gradient = w.grad
    """)
    assert watched(program).findings == ()
    assert [finding.code for finding in watched(program, fingerprint=1.0).findings] == ["UC102"]
