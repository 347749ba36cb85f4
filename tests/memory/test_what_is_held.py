"""What is kept or held for nothing: taken away in another run, which must come to the same gradients."""

from __future__ import annotations

import types

import pytest
import torch
from torch import nn

import unclobber

WIDTH = 64


def numbers(*shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(shape, requires_grad=True)


def changes(step, *sorts):
    return [one for one in unclobber.memory(step, try_changes=True).changes if one.sort in sorts]


def test_a_list_keeps_values():
    """Its name is told; without what it holds the peak falls as predicted."""

    def logs():
        outputs = []
        x = numbers(100, WIDTH)
        for _ in range(3):
            x = x * 2 + 1
            outputs.append(x)
        x.exp().sum().backward()

    (one,) = changes(logs, "held")
    assert one.title == "outputs and x (3 tensors) are held in backward, which reads them no more at the peak"
    assert one.tried.proved
    assert one.tried.saved == one.predicted == 3 * 100 * WIDTH * 4


def test_a_list_keeps_graphs():
    """Losses of steps whose backward never comes: what their graphs keep goes with a detach()."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    x = torch.randn(400, WIDTH)

    def graphs():
        losses = []
        for _ in range(2):
            losses.append(model(x).exp().mean())
        model(x).exp().mean().backward()

    (one,) = changes(graphs, "held")
    assert one.title.startswith("losses (2 tensors) keeps the graph that made it")
    assert "x.detach() in losses" in one.write
    assert one.tried.proved
    assert one.tried.saved == pytest.approx(one.predicted, rel=0.1)
    assert one.tried.saved >= 4 * x.nbytes


@pytest.mark.parametrize("twice", [True, False])
def test_a_gradient_that_is_part_of_the_loss_frees_nothing(twice):
    """A gradient penalty is taken before the loss is whole, which the next backward goes through."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))

    def penalised():
        x = numbers(400, WIDTH)
        loss = model(x * 2).mean()
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=twice)
        (loss + gradient.square().mean()).backward()

    assert bool(changes(penalised, "held")) is not twice


def test_all_names_of_a_memory_are_told():
    """Three views of one tensor: the memory goes with the last of them, and each is named."""

    def views():
        x = numbers(100, 3 * WIDTH)
        q, k, v = (x * 2).chunk(3, 1)
        ((q * 2).exp() + (k * 3).exp() + (v * 4).exp()).sum().backward()

    (one,) = changes(views, "held")
    assert one.title == "q, k and v are held in backward, which reads them no more at the peak"
    assert one.write == "del q, k, v before backward, unless they are read later"
    assert one.tried.proved
    assert one.tried.saved == one.predicted > 0


def test_a_state_that_a_later_step_reads_is_held_for_it():
    """A momentum by hand: no gradient would tell that it is gone, so its removal is never advised."""
    weight, x = numbers(WIDTH, WIDTH), torch.ones(1, WIDTH)

    def steps():
        momentum = [torch.zeros_like(weight)]
        (x @ weight).sum().backward()
        with torch.no_grad():
            momentum[0].mul_(0.9).add_(weight.grad)
            weight.sub_(momentum[0])

    assert changes(steps, "held") == []


def test_an_object_and_a_variable_hold_one_value():
    """Both are named: either alone frees nothing."""

    def both():
        hidden = numbers(400, WIDTH).tanh()
        logits = hidden * 2
        out = Answer((logits + 1).exp().mean(), logits)
        out.loss.backward()

    told = {one.title.partition(" ")[2]: one for one in changes(both, "held")}
    (one,) = [one for one in told.values() if "logits" in one.title]
    assert one.title.startswith("logits and out.logits are held")
    assert (
        one.write
        == "take what is needed of out, and del it, and del logits before backward, unless it is read later"
    )


class Answer:
    """What a model returns."""

    def __init__(self, loss, logits):
        self.loss, self.logits = loss, logits


def test_an_object_keeps_a_value():
    """An output beside the loss, named as the program would name it."""

    def outputs():
        hidden = numbers(400, WIDTH).tanh()
        logits = hidden * 2
        out = Answer((logits + 1).exp().mean(), logits)
        del hidden, logits
        out.loss.backward()

    (one,) = changes(outputs, "held")
    assert one.title.startswith("out.logits is held")
    assert one.tried.proved
    assert one.tried.saved > 0


def test_what_is_read_after_all_is_not_proved():
    """A hook reads what no operation of forward reads again."""

    def step():
        x = numbers(400, WIDTH).tanh()
        scale = x * 2
        y = (scale + 1).exp()
        y.register_hook(lambda gradient: gradient * scale)
        y.sum().backward()

    report = unclobber.memory(step, try_changes=True)
    assert not [one for one in report.changes if one.sort == "held" and one.tried and one.tried.proved]


def test_a_gradient_that_nobody_asks():
    """The second branch is kept for a gradient that isn't computed: dropped, the other one is the same."""

    def branch():
        a, b = numbers(400, WIDTH), numbers(400, WIDTH)
        unused = (a * 2).exp().sin()
        torch.autograd.grad(((b * 2).exp() + unused).sum(), [b])

    (one,) = changes(branch, "unneeded", "held")
    assert one.sort == "unneeded"
    assert one.tried.proved
    assert one.tried.saved == one.predicted == 400 * WIDTH * 4


class Model(nn.Module):
    """One of the ways below to keep more than is needed."""

    def __init__(self, way) -> None:
        super().__init__()
        self.way, self.first = way, nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.way(self.first(x).tanh()).sin()


def mask(h):
    return h * (torch.rand_like(h) < 0.8).float() / 0.8


def scaled_mask(h):
    keep = (torch.rand_like(h) < 0.8).float() / 0.8
    return h * keep


def bool_mask(h):
    return h * (torch.rand_like(h) < 0.8) / 0.8


def copied(h):
    other = h.t().contiguous()
    return (other.exp() * other.sin()).t() + h


def computed_twice(h):
    other = h + 1
    return h * torch.sigmoid(other) + other.sigmoid().exp() * h


def computed_of_another(h):
    other = h + 1
    first = torch.sigmoid(other)
    with torch.no_grad():
        other.mul_(2)
    return h * first + torch.sigmoid(other)


def converted(h):
    narrow = h.to(torch.bfloat16).tanh()
    return narrow.float().sin() + narrow


def promoted(h):
    return h * torch.full((WIDTH,), 2.0, dtype=torch.float64)


def doubled(h):
    return h.double().exp()


@pytest.mark.parametrize(
    ("way", "sort", "words"),
    [
        (mask, "mask", "kept as float32, 4 bytes an element"),
        (scaled_mask, "mask", "kept as float32, 4 bytes an element"),
        (copied, "twice", "beside what it was copied from"),
        (computed_twice, "twice", "sigmoid of the same tensors is computed a second time"),
        (computed_of_another, None, ""),
        (converted, "dtype", "kept as float32, though it was converted from bfloat16"),
        (promoted, "dtype", "float32 becomes float64 here"),
        (doubled, "dtype", "float32 becomes float64 here"),
        (bool_mask, None, ""),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_kept_wider_or_twice(way, sort, words):
    """A mask of numbers, a copy, a wider dtype: without it the gradients are the same, or nearly."""
    model, x = Model(way), torch.randn(400, WIDTH)
    told = changes(lambda: model(x).square().mean().backward(), "mask", "twice", "dtype")
    assert [one.sort for one in told] == [sort] * (sort is not None)
    for one in told:
        assert words in one.title
        assert one.tried.proved
        assert one.tried.saved > 0
        assert (one.tried.largest_difference == 0) == ("becomes" not in one.title)


def test_a_source_that_is_overwritten():
    """What a copy was made of is written before backward: it can't be computed again, and isn't."""

    def way(h):
        h = h * 1
        other = h.clone()
        out = other.sin()
        with torch.no_grad():
            h.zero_()
        return out + other.cos() + h

    model, x = Model(way), torch.randn(400, WIDTH)
    for one in changes(lambda: model(x).square().mean().backward(), "twice"):
        assert not one.tried.proved


CACHE = """
import torch


class Cache:
    def __init__(self):
        self.keys = []

    def update(self, keys):
        self.keys.append(torch.cat([keys.new_empty(0, keys.shape[-1]), keys]))
        return keys
"""


class Generator(nn.Module):
    """Caches as a model of Transformers does."""

    def __init__(self) -> None:
        super().__init__()
        names: dict[str, type] = {}
        exec(compile(CACHE, "site-packages/transformers/cache_utils.py", "exec"), names)
        self.cache, self.config = names["Cache"], types.SimpleNamespace(use_cache=True)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x):
        cache = self.cache()
        for layer in self.layers:
            keys = layer(x)
            keys = cache.update(keys) if self.config.use_cache else keys
            x = keys.exp() + keys.sin()
        return Answer(x.mean(), cache)


def test_a_cache_for_generating():
    """What Transformers caches in training: without it the gradients are the same."""
    model, x = Generator(), torch.randn(400, WIDTH)

    def step():
        out = model(x)
        out.loss.backward()

    (one,) = [one for one in changes(step, "held") if "use_cache" in one.title]
    assert one.times == 2
    assert one.tried.proved
    assert one.saved > 0
    assert model.config.use_cache


@pytest.mark.parametrize("retain", [True, False])
def test_a_retained_graph(retain):
    """Where `retain_graph=True` keeps the graph, that is said, and not that a loss keeps it."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    x = torch.randn(400, WIDTH)

    def two_losses():
        (model(x).mean() + model(x).mean()).backward(retain_graph=retain)

    titles = [one.title for one in changes(two_losses, "held")]
    assert any("retain_graph=True" in title for title in titles) == retain
    assert not any("not freed" in title for title in titles)
