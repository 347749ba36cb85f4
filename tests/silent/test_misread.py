"""In-place operations that read what they have overwritten: told exactly where the result is another."""

import contextlib

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import unclobber


def table():
    return torch.arange(1.0, 17.0).view(4, 4).clone()


MISREAD = {
    "a column taken off": lambda x, y: x.sub_(y[:, :1]),
    "a column taken off the transposed": lambda x, y: x.t().sub_(y[:, 0]),
    "columns shifted": lambda x, y: x[:, 1:].copy_(y[:, :-1]),
    "columns added up": lambda x, y: x[:, 1:].add_(y[:, :-1]),
    "the diagonal": lambda x, y: x.mul_(y.diagonal()),
    "out=": lambda x, y: torch.sub(y, y[:, :1], out=x),
}
RIGHT = {
    "element by element": lambda x, y: x.mul_(y),
    "columns shifted towards the front": lambda x, y: x[:, :-1].copy_(y[:, 1:]),
    "other columns": lambda x, y: x[:, ::2].mul_(y[:, 1::2]),
    "a copy of the column": lambda x, y: x.sub_(y[:, :1].clone()),
    "selected rows": lambda x, y: x[1:].copy_(y[[0, 1, 2]]),
    "the same values": lambda x, y: x.mul_(0).sub_(y[:, :1] * 0),
    "random": lambda x, y: x[:, 1:].bernoulli_(y[:, :-1].clamp(0, 1)),
}
REFUSED = {"rows shifted": lambda x, y: x[1:].copy_(y[:-1]), "a row taken off": lambda x, y: x.sub_(y[0])}


def watched(write, *, strict=False):
    """The findings of a program that writes while a graph is alive."""
    with unclobber.watch(strict=strict) as w:
        loss = torch.ones(2, requires_grad=True).exp().sum()
        memory = table()
        write(memory, memory)
        loss.backward()
    return w.findings


def told(write):
    """The same where a warning must come, too."""
    with pytest.warns(unclobber.SilentWriteWarning):
        return watched(write)


@pytest.mark.parametrize("write", MISREAD.values(), ids=MISREAD)
def test_torch_is_silent_and_wrong_and_it_is_told(write):
    plain, apart = table(), table()
    write(plain, plain)
    write(apart, apart.clone())
    assert not torch.equal(plain, apart)
    (finding,) = told(write)
    assert (finding.code, finding.saved) == ("UC102", None)
    assert finding.writes[0].site.line == finding.needed.site.line == write.__code__.co_firstlineno


@pytest.mark.parametrize("write", RIGHT.values(), ids=RIGHT)
def test_where_the_result_is_right_nothing_is_told(write):
    assert watched(write, strict=True) == ()


@pytest.mark.parametrize("write", REFUSED.values(), ids=REFUSED)
def test_what_torch_refuses_is_left_to_torch(write):
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        watched(write, strict=True)


def test_strict_raises_before_the_write():
    memory = table()
    with pytest.raises(unclobber.InplaceError, match="still reads the old values"):
        watched(lambda *_: memory.sub_(memory[:, :1]), strict=True)
    assert torch.equal(memory, table())


def test_looking_changes_nothing():
    """No counter, no random number, no gradient."""

    def run(context):
        torch.manual_seed(0)
        x = table().requires_grad_()
        with context:
            y = x.exp().sin()
            y -= y[:, :1]
            (y.sum() + torch.rand(())).backward()
        return x.grad, y._version, torch.rand(3)

    with pytest.warns(unclobber.SilentWriteWarning):
        ours = run(unclobber.watch())
    grad, version, numbers = run(contextlib.nullcontext())
    assert torch.equal(ours[0], grad)
    assert ours[1] == version
    assert torch.equal(ours[2], numbers)


def test_the_advice_is_code_that_reads_first():
    def write(x, y):
        x[:, 1:] = y[:, :-1]

    (finding,) = told(write)
    assert finding.fixes[0].code == "x[:, 1:] = y[:, :-1].clone()"
    assert finding.needed.site.source == "y[:, :-1]"


SLICES = st.builds(slice, st.integers(0, 1), st.integers(2, 5), st.integers(1, 2))
VIEWS = st.one_of(
    st.builds(lambda rows, columns: lambda x: x[rows, columns], SLICES, SLICES),
    st.builds(lambda column: lambda x: x[:, column : column + 1], st.integers(0, 4)),
    st.builds(lambda row: lambda x: x[row], st.integers(0, 4)),
    st.just(torch.Tensor.t),
    st.just(torch.Tensor.diagonal),
)
OPERATIONS = {
    "sub_": lambda x, y: x.sub_(y),
    "copy_": lambda x, y: x.copy_(y),
    "div_": lambda x, y: x.div_(y),
    "lerp_": lambda x, y: x.lerp_(y, 0.3),
    "addcmul_": lambda x, y: x.addcmul_(y, torch.tensor(2.0)),
    "masked_fill_": lambda x, y: x.masked_fill_(y > 9, 1.0),
    "maximum": lambda x, y: torch.maximum(x, y, out=x),
}


@given(st.sampled_from(sorted(OPERATIONS)), VIEWS, VIEWS)
def test_told_exactly_where_the_result_is_another(name, written, read):
    """Any two views of one memory."""

    def run(memory, other):
        try:
            OPERATIONS[name](written(memory), read(other))
        except RuntimeError:  # refused: an overlap that torch sees, or shapes that don't fit
            assume(False)
        return memory

    def memory():
        return torch.arange(1.0, 26.0).view(5, 5).clone()

    one = memory()
    plain = run(one, one)
    apart = run(memory(), memory())
    with unclobber.guard() as guarded:
        alive = torch.ones(2, requires_grad=True).exp().exp()
        ours = memory()
        run(ours, ours)
    assert torch.equal(ours, plain)
    assert bool(guarded.findings) == (not torch.equal(plain, apart))
    del alive
