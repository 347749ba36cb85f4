"""Which line keeps what, why, how long, and what only seems to be kept."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from unclobber.footprint import memory as record
from unclobber.footprint._recorder import _PackedTensor

N = 1000
BYTES = 4 * N


def kept(step, kind="activation"):
    return [one for one in record(step).kept if one.kind == kind]


def leaf() -> torch.Tensor:
    return torch.ones(N, requires_grad=True)


def exponential():
    (leaf() * 2).exp().sum().backward()


def square():
    ((leaf() * 2) ** 2).sum().backward()


def scaled():
    (10 * (leaf() * 2)).sum().backward()


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (exponential, [("exp", "result", "grad of self = grad * result")]),
        (square, [("pow", "self", "grad of self = grad * exponent * self ** (exponent - 1)")]),
        (scaled, []),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_roles(step, expected):
    """exp keeps its result, a square its input, ten times something neither."""
    found = kept(step)
    assert [(one.roles[0].operation, one.roles[0].role, one.roles[0].why) for one in found] == expected
    assert all(one.bytes == BYTES for one in found)


def test_the_line_and_the_life():
    """The line that saved is charged; the save lives until its backward has run."""

    def step():
        y = (leaf() * 2).exp()  # charged
        (y * leaf()).sum().backward()

    report = record(step)
    (line,) = [one for one in report.by_line if one.bytes == BYTES]
    assert line.place is not None
    assert line.place.path == __file__
    assert line.place.source == "(leaf() * 2).exp()"
    assert line.operations == ("exp",)
    assert report.bytes_by_line[__file__, line.place.line] == BYTES
    (one,) = [one for one in report.kept if one.kind == "activation"]
    assert one.needed
    assert one.since <= report.backward_began < one.until <= report.ended


def test_two_buffers():
    """``x = a*b; x = x*c`` is not in place: a*b lives until the gradient of c has been computed."""

    def step():
        a, b, c = leaf(), leaf(), leaf()
        x = a * b
        x = x * c
        x.sum().backward()

    report = record(step)
    (product,) = [one for one in report.kept if one.kind == "activation"]
    assert (product.made_by, product.roles[0].role, product.bytes) == ("mul", "self", BYTES)
    assert sum(one.kind == "parameter" for one in report.kept) == 3


def test_saved_twice_counts_once():
    """One storage under several names."""

    def step():
        y = leaf() * 2
        z = y.view(N, 1)
        (y**2).sum().add((z**3).sum()).backward()

    report = record(step)
    (one,) = report.shared
    assert (one.bytes, len(one.roles)) == (BYTES, 2)
    assert sum(line.bytes for line in report.by_line) == BYTES


def test_parameters_live_anyway():
    """A weight is saved by every product with it and is no activation."""

    def step():
        w = leaf()
        (w * w).sum().backward()

    assert kept(step) == []
    assert [one.bytes for one in kept(step, "parameter")] == [BYTES]


def test_kept_and_never_needed():
    """Only the gradient of the second branch is asked for."""

    def step():
        a, b = leaf(), leaf()
        unused = (a * 2).exp()
        torch.autograd.grad(((b * 2).exp() + unused).sum(), [b])

    (one,) = record(step).unneeded
    assert one.roles[0].operation == "exp"
    assert one.roles[0].place is not None
    assert one.roles[0].place.source == "(a * 2).exp()"


def test_gradients_on_their_way_are_freed():
    """Gradients of non-leaves are freed as backward passes; ``retain_grad`` keeps its own."""

    def plain():
        w = leaf()
        y = w * 2
        (y.exp() * 3).sum().backward()

    passing = [one for one in record(plain).gradients if one.leaf is None and one.bytes == BYTES]
    assert passing
    assert all(one.freed is not None for one in passing)

    def retained():
        w = leaf()
        y = w * 2
        y.retain_grad()
        (y.exp() * 3).sum().backward()
        assert y.grad is not None

    alive = [one for one in record(retained).gradients if one.freed is None and one.bytes == BYTES]
    assert len(alive) == 2  # of y and of w


def test_the_timeline_adds_up():
    """Kept bytes rise to the sum of all saves and fall to nothing."""

    def step():
        x = leaf() * 2
        for _ in range(5):
            x = x.exp().sin()
        x.sum().backward()

    report = record(step)
    assert report.peak_kept == sum(one.bytes for one in report.kept if one.kind == "activation")
    assert report.timeline[-1].kept == 0
    ticks = [moment.tick for moment in report.timeline]
    assert ticks == sorted(set(ticks))
    assert max(moment.step for moment in report.timeline) == report.peak.moment.step


def test_modules_are_named():
    """By their path and class."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 8), nn.Tanh())

        def forward(self, x):
            return self.body(x).sum()

    report = record(lambda: Net()(torch.randn(4, 8)).backward())
    assert {role.module for one in report.kept for role in one.roles} >= {"body.1 (Tanh)", "body.0 (Linear)"}


def test_a_later_step():
    """The second backward's stretch has the optimizer's state among what lives anyway."""

    def steps():
        model = nn.Linear(100, 100)
        optimizer = torch.optim.Adam(model.parameters())
        data = torch.randn(10, 100)
        for _ in range(2):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()

    first, second = record(steps), record(steps, backwards=2)
    state = 2 * (100 * 100 + 100) * 4
    grown = second.peak.moment.lasting - first.peak.moment.lasting
    assert state <= grown <= state + 100  # and the counters of steps
    assert second.peak_kept == first.peak_kept


def test_recording_leaves_nothing_behind():
    """Hooks, modes and torch's entry points are as they were, after an exception too."""
    before = torch.autograd.graph._engine_run_backward

    def fails():
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        record(fails)
    assert torch.autograd.graph._engine_run_backward is before
    y = leaf().exp()
    assert y.grad_fn is not None
    assert not hasattr(y.grad_fn._raw_saved_result, "data") or _unhooked(y.grad_fn)


def _unhooked(node) -> bool:
    """Whether a node's save went through no hook: only then has it no data of a hook's to show."""
    try:
        return not isinstance(node._raw_saved_result.data, _PackedTensor)
    except RuntimeError:
        return True


def test_equal_code_in_two_files(tmp_path):
    """Code objects of the same text are equal, wherever they come from; their lines are not."""
    text = "import torch\nx = torch.ones(9, requires_grad=True) * 2\n(x.exp() * x).sum().backward()\n"
    for name in ("one.py", "two.py"):
        path = tmp_path / name
        path.write_text(text)
        report = record(exec, compile(text, str(path), "exec"), {})
        assert {one.roles[0].place.path for one in report.kept if one.roles[0].place} == {str(path)}
