"""Nothing that a step has made waits for Python's collector because it was watched."""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.utils import checkpoint as checkpoints
from torch.utils.checkpoint import checkpoint

import unclobber

NET = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.LayerNorm(8))
MIXED = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True))


class Squared(torch.autograd.Function):
    """It keeps a tensor for backward, and another one on ``ctx``."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.twice = 2 * x
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.twice + 0 * ctx.saved_tensors[0]


def selective(ctx, operation, *args, **kwargs):
    policy = checkpoints.CheckpointPolicy
    return policy.MUST_SAVE if "mm" in str(operation) else policy.PREFER_RECOMPUTE


def under(context: contextlib.AbstractContextManager[object], x: Tensor) -> Tensor:
    with context:
        return NET(x).exp()


def swapped(x: Tensor) -> Tensor:
    p = torch.ones(8, requires_grad=True)
    loss = p * x
    p.data = torch.zeros(8)
    return loss


def in_place(x: Tensor) -> Tensor:
    y = NET(x)
    y[0] = 0
    return y.view(-1).mul_(2)


def refused(x: Tensor) -> Tensor:
    y = NET(x).exp()
    y.mul_(2)
    with contextlib.suppress(RuntimeError):
        y.sum().backward()
    return NET(x)


KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": NET,
    "a ring": lambda x: (y := NET(x), y.register_hook(lambda gradient, y=y: gradient * y))[0],
    "checkpoint": lambda x: checkpoint(NET, x, use_reentrant=False),
    "reentrant": lambda x: checkpoint(NET, x.requires_grad_(), use_reentrant=True),
    "nested": lambda x: checkpoint(
        lambda y: checkpoint(NET, NET(y), use_reentrant=False), x, use_reentrant=False
    ),
    "selective": lambda x: checkpoint(
        NET,
        x,
        use_reentrant=False,
        context_fn=functools.partial(checkpoints.create_selective_checkpoint_contexts, selective),
    ),
    "a Function": lambda x: Squared.apply(NET(x)),
    "save_on_cpu": lambda x: under(torch.autograd.graph.save_on_cpu(), x),
    "hooks": lambda x: under(
        torch.autograd.graph.saved_tensors_hooks(lambda t: (t, 1), lambda kept: kept[0]), x
    ),
    "other memory": swapped,
    "in place": in_place,
    "batch norm": MIXED,
    "refused": refused,
    "an array": lambda x: NET(torch.from_numpy(x.numpy())),
}


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def left_by(kind: str, context: Callable[[], contextlib.AbstractContextManager[object]]) -> int:
    """Return how many tensors four steps leave to the collector."""

    def count() -> int:
        return sum(isinstance(each, Tensor) for each in gc.get_objects())

    with context():
        for first in (True, False):
            for _ in range(4):
                KINDS[kind](torch.rand(4, 8)).sum().backward()
            if first:
                gc.collect()
                before = count()
        return count() - before


@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard])
@pytest.mark.parametrize("kind", KINDS)
def test_as_many_tensors_wait_as_without_a_context(kind, context):
    assert left_by(kind, context) == left_by(kind, contextlib.nullcontext)


def test_a_tensor_that_waits_is_counted():
    assert left_by("a ring", contextlib.nullcontext) == 4
