"""What would save memory: formulas told by what they compute, checkpoints, and the proof of each."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import unclobber
from unclobber.footprint import _recorder as recorders
from unclobber.footprint.savings import _formulas

WIDTH = 16


def found(function, *inputs) -> list[str]:
    """The calls that would do for what a function writes out."""
    recorder = recorders.MemoryRecorder(stop=False)
    with recorder:
        outs = function(*(one * 1.5 if one.is_floating_point() else one for one in inputs))
        (outs.sin() * 2).sum().backward()
    return [formula.call for formula in _formulas.formulas(recorder.trace)]


def numbers(*shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(shape, requires_grad=True)


def gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def gelu_tanh(x):
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1.0 + torch.tanh(inner))


def another_constant(x):
    inner = math.sqrt(2.0 / math.pi) * (x + 0.05 * x**3)
    return 0.5 * x * (1.0 + torch.tanh(inner))


def silu(x):
    return x * torch.sigmoid(x)


def silu_by_exp(x):
    return x / (1 + torch.exp(-x))


def detached(x):
    return x * torch.sigmoid(x.detach())


def read_elsewhere(x):
    gate = torch.sigmoid(x)
    return x * gate + gate.cos()


def log_of_softmax(x):
    return torch.log(torch.softmax(x, dim=-1))


def layer_norm(x):
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-6)


def rms_norm(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def rms_norm_by_root(x):
    return x / torch.sqrt(torch.mean(x * x, -1, keepdim=True) + 1e-5)


def loss_of_logarithms(x):
    return functional.nll_loss(torch.log(torch.softmax(x.flatten(0, 1), -1)), torch.arange(24) % WIDTH)


def loss_in_two(x):
    return functional.nll_loss(torch.log_softmax(x.flatten(0, 1), -1), torch.arange(24) % WIDTH)


def mean_alone(x):
    return torch.exp(x - x.mean(-1, keepdim=True)) * 2


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (gelu, ["F.gelu({0})"]),
        (gelu_tanh, ["F.gelu({0}, approximate='tanh')"]),
        (another_constant, []),
        (silu, ["F.silu({0})"]),
        (silu_by_exp, ["F.silu({0})"]),
        (detached, []),
        (read_elsewhere, []),
        (log_of_softmax, ["F.log_softmax({0}, dim=-1)"]),
        (layer_norm, ["F.layer_norm({0}, {0}.shape[-1:], eps=1e-06)"]),
        (rms_norm, ["F.rms_norm({0}, {0}.shape[-1:], eps=1e-06)"]),
        (rms_norm_by_root, ["F.rms_norm({0}, {0}.shape[-1:], eps=1e-05)"]),
        (loss_of_logarithms, ["F.log_softmax({0}, dim=-1)"]),
        (loss_in_two, []),
        (mean_alone, []),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_formulas(function, expected):
    """Told by value and gradient, however they are spelled; what computes something else is none."""
    assert found(function, numbers(4, 6, WIDTH)) == expected


@pytest.mark.parametrize("masked", [False, True])
def test_attention(masked):
    """Queries, keys and values in any layout, with a mask that hides."""
    mask = torch.ones(8, 8, dtype=torch.bool).triu(1)

    def attention(x):
        q, k, v = x.unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * WIDTH**-0.5
        if masked:
            scores = scores.masked_fill(mask, -torch.finfo(scores.dtype).max)
        return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)

    (call,) = found(attention, numbers(3, 8, 3 * 2 * WIDTH))
    assert call.startswith("F.scaled_dot_product_attention({0}, {1}, {2}")
    assert ("attn_mask=~{3}" in call) == masked
    assert "scale=" not in call


@pytest.mark.parametrize("length", [8, 700])
def test_attention_with_a_causal_mask(length):
    """By hand as nanoGPT has it: heads by view, sizes as numbers, the mask compared with a buffer's slice.

    Of any length, because it is computed again on small sizes.
    """
    triangle = torch.tril(torch.ones(800, 800)).view(1, 1, 800, 800)

    def attention(x):
        batch, time, width = x.shape
        q, k, v = (part.view(batch, time, 4, -1).transpose(1, 2) for part in x.split(width // 3, 2))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(triangle[:, :, :time, :time] == 0, float("-inf"))
        return (functional.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(batch, time, -1)

    calls = ["F.scaled_dot_product_attention({0}, {1}, {2}, attn_mask=~{3})"]
    assert found(attention, numbers(3, length, 3 * 4 * WIDTH)) == calls


def test_what_lowers_nothing_is_no_change():
    """A checkpoint that was predicted to help, and measured to help nothing, is left out."""

    class Twice(nn.Module):
        """What its code keeps alive, a second forward keeps alive, too."""

        def __init__(self) -> None:
            super().__init__()
            self.seen: list[torch.Tensor] = []

        def forward(self, x):
            y = x.exp()
            self.seen.append(y.sin().exp())
            return y * self.seen[-1]

    def whole():
        step(nn.Sequential(Twice(), Twice()), numbers(64, WIDTH) * 1)

    report = unclobber.memory(whole, try_changes=True)
    assert all(one.tried.saved > 0 for one in report.changes if one.tried and one.tried.proved)


def test_rms_norm_needs_a_kernel():
    """On the CPU torch's function keeps what the formula keeps: it is found, and not proposed."""
    weight = nn.Parameter(torch.rand(WIDTH))

    def llama(x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return weight * wide.to(x.dtype)

    x = numbers(400, WIDTH)
    assert found(llama, x) == ["F.rms_norm({0}, {0}.shape[-1:], {1}, eps=1e-06)"]
    report = unclobber.memory(lambda: llama(x * 1.5).sin().sum().backward())
    assert "formula" not in [change.sort for change in report.changes]


def test_weights_of_a_norm():
    """A weight and a bias go to their places."""
    weight, bias = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(WIDTH))

    def norm(x):
        spread = torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5)
        return weight * ((x - x.mean(-1, keepdim=True)) / spread) + bias

    assert found(norm, numbers(4, 6, WIDTH)) == ["F.layer_norm({0}, {0}.shape[-1:], {1}, {2}, eps=1e-05)"]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.drop, self.down = nn.Linear(WIDTH, 64), nn.Dropout(0.2), nn.Linear(64, WIDTH)

    def forward(self, x):
        return x + self.down(self.drop(gelu_tanh(self.up(x))))


class Net(nn.Module):
    def __init__(self, blocks: int = 3) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*[Block() for _ in range(blocks)])

    def forward(self, x):
        return self.blocks(x)


def step(model, x):
    model(x).square().mean().backward()


@pytest.fixture(scope="module")
def tried():
    torch.manual_seed(0)
    return unclobber.memory(step, Net(), torch.randn(8, 32, WIDTH), try_changes=True)


def test_the_formula_is_run(tried):
    """Its saving is measured, its gradients are those of the program within rounding."""
    (one,) = [change for change in tried.changes if change.sort == "formula"]
    assert one.write == "F.gelu(x, approximate='tanh')"
    assert one.times == 3
    assert one.tried.proved
    assert 0 < one.tried.largest_difference < 1e-5
    assert one.tried.saved >= one.predicted > 0.3 * tried.peak.moment.step
    assert one.place.source == "0.5 * x * (1.0 + torch.tanh(inner))"


def test_checkpoints_are_run(tried):
    """To the bit, dropout included; predicted as measured; forward's work is paid again."""
    best = next(
        change for change in tried.changes if change.sort == "checkpoint" and "blocks.*" in change.title
    )
    assert best.tried.proved
    assert best.tried.largest_difference == 0
    assert best.tried.saved == pytest.approx(best.predicted, rel=0.1)
    assert 0.5 < best.recomputed <= 1


def test_the_curve_falls(tried):
    """Each step has a lower peak than the one before; the last one has all that was proved."""
    peaks = [point.tried.peak_after for point in tried.curve]
    assert peaks == sorted(peaks, reverse=True)
    assert len(peaks) > 1
    assert peaks[-1] < 0.5 * tried.peak.moment.step
    assert all(point.tried.proved for point in tried.curve)
    sorts = [{tried.changes[at].sort for at in point.changes} for point in tried.curve]
    assert "checkpoint" not in sorts[0]
    assert sorts[-1] >= {"formula", "mask", "checkpoint"}


def test_a_mask_of_numbers(tried):
    """Dropout's mask takes a quarter; the numbers drawn are the same."""
    (one,) = [change for change in tried.changes if change.sort == "mask"]
    assert one.tried.proved
    assert one.tried.largest_difference == 0
    assert one.tried.saved == one.predicted


def test_what_is_told(tried):
    """Prediction and measurement in one sentence; the page holds the same."""
    text = " ".join(str(tried).split())
    assert "gelu is written out as" in text
    assert "gradients equal to the bit" in text
    assert "What would save memory" in tried._repr_html_()
    assert tried.to_dict()["changes"][0]["tried"]["peak_after"] > 0


def test_a_peak_that_is_none_of_the_steps():
    """Data that the program frees at once are more than all that the step makes: the page has no ratios."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(3)))

        def forward(self, data: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            large = data.pop()
            large.view(-1)
            del large
            h = self.layers(x).exp()
            h = h * torch.sigmoid(h)
            return h.sin().sum()

    net = Net()

    def step() -> None:
        net([torch.ones(10**6)], torch.ones(10, 16)).backward()

    report = unclobber.memory(step)
    assert report.changes
    assert report.peak.moment.step == 0
    assert "What would save memory" in report._repr_html_()


def test_nothing_is_left_behind():
    """Gradients, statistics, generators and methods are as they were."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 64), nn.BatchNorm1d(64), nn.Dropout(0.2), nn.Linear(64, WIDTH))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    unclobber.memory(step, model, torch.randn(32, WIDTH, generator=torch.Generator()), try_changes=True)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert {parameter.grad for parameter in model.parameters()} == {None}
    assert not [one for one in model.modules() if "forward" in vars(one)]
    assert torch.equal(torch.get_rng_state(), state)


class Norm(nn.Module):
    """Its running statistics would be updated twice."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        return torch.tanh(self.norm(x).exp()).sin().cos()


class Remembers(nn.Module):
    """A second forward computes something else, as one that grows a cache does."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, x):
        self.seen += 1
        return (x.exp() * self.seen).sin().cos()


@pytest.mark.parametrize("kind", [Norm, Remembers])
def test_what_changes_the_program_is_not_proved(kind):
    """A checkpoint that changes a buffer or a gradient is told, and is in no step of the curve."""

    def whole():
        torch.manual_seed(0)
        inside = nn.Sequential(nn.Linear(WIDTH, WIDTH), kind(), Block(), Block())
        step(inside, torch.randn(64, WIDTH))

    report = unclobber.memory(whole, try_changes=True)
    checkpoints = [one for one in report.changes if one.sort == "checkpoint" and kind.__name__ in one.title]
    assert checkpoints
    assert not any(one.tried.proved for one in checkpoints)
    assert not any(one.saved for one in checkpoints)
    assert "NOT PROVED" in str(report)
    told = [report.changes[at] for point in report.curve for at in point.changes]
    assert not [one for one in told if one in checkpoints]


def test_tries_need_values():
    """Fake tensors have no gradients to compare."""
    with pytest.raises(unclobber.UnclobberError, match="real tensors"):
        unclobber.memory(step, None, fake=True, try_changes=True)


def test_fake_tensors_plan_the_same():
    """Without values formulas and checkpoints are found all the same; work is estimated from shapes."""

    def whole():
        step(Net(), torch.randn(8, 32, WIDTH))

    torch.manual_seed(0)
    real, fake = unclobber.memory(whole), unclobber.memory(whole, fake=True)
    real_ones = {(one.sort, one.title): one.predicted for one in real.changes if one.sort != "checkpoint"}
    fake_ones = {(one.sort, one.title): one.predicted for one in fake.changes if one.sort != "checkpoint"}
    assert real_ones == fake_ones != {}
    assert any(one.recomputed > 0.5 for one in fake.changes if one.sort == "checkpoint")


def test_gelu_is_what_it_is_taken_for():
    """The functions of this file are those that torch has."""
    x = numbers(50).detach().double()
    assert torch.allclose(gelu(x), functional.gelu(x))
    assert torch.allclose(gelu_tanh(x), functional.gelu(x, approximate="tanh"))
    assert not torch.allclose(another_constant(x), functional.gelu(x, approximate="tanh"))
