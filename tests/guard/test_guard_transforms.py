"""``torch.func`` transforms, ``vmap``, fake and meta tensors, functional calls inside guard."""

import gc

import pytest
import torch
from guarded_twins import assert_as_written, ramp
from torch import nn
from torch.utils.checkpoint import checkpoint

import unclobber
from torch_features import needs
from torch_words import quiet_script

WEIGHT = torch.tensor(0.5, requires_grad=True)


def body(x):
    """A function with in-place writes that torch allows."""
    y = x * 2
    y[0] = 0
    y.add_(1)
    return (y**2).sum()


def checkpointed(row):
    """A checkpoint, which saves its inputs in torch's Python code."""
    return checkpoint(lambda x: (x * WEIGHT).sin(), row, use_reentrant=False)


@quiet_script
@pytest.mark.parametrize(
    "transform",
    [
        lambda x: torch.func.grad(body)(x),
        lambda x: torch.func.vjp(body, x)[1](torch.ones((), dtype=x.dtype))[0],
        lambda x: torch.func.jvp(body, (x,), (torch.ones_like(x),))[1],
        lambda x: torch.func.jacrev(lambda v: v.sin())(x),
        lambda x: torch.func.hessian(lambda v: (v**3).sum())(x),
        lambda x: torch.func.vmap(lambda row: row.clone().add_(1).exp())(x.view(2, 2)),
        lambda x: torch.func.vmap(torch.func.grad(body))(x.view(2, 2)),
        lambda x: torch.func.vmap(checkpointed)(x.view(2, 2)).detach(),
        lambda x: torch.autograd.functional.hessian(lambda v: (v**3).sum(), x),
    ],
    ids=["grad", "vjp", "jvp", "jacrev", "hessian", "vmap", "vmap of grad", "vmap of a checkpoint",
         "functional.hessian"],
)  # fmt: skip
def test_transforms_are_left_alone(transform):
    """The same numbers as without us, and guard goes on afterwards."""
    start = ramp(4, grad=False)
    expected = transform(start)
    with unclobber.guard():
        assert torch.equal(transform(start), expected)
        w = ramp(3)
        y = w.exp()
        z = (y * y).sum()
        y.zero_()
        z.backward()
    torch.testing.assert_close(w.grad, 2 * w.detach().exp() ** 2, rtol=1e-14, atol=0)


LOSSES = {
    "abs": lambda w: w.abs().sum(),
    "prod": lambda w: w.prod(),
    "logsumexp": lambda w: w.logsumexp(0),
    "tanh of a parameter": lambda w: (w * WEIGHT).tanh().sum(),
    "exp_ of a parameter": lambda w: (w * WEIGHT).exp_().sum(),
}


@quiet_script
@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_transforms_keep_nothing(context, loss):
    """What saves its own result keeps it without its history, with which it would be a cycle."""

    def count():
        gc.collect()
        return sum(type(each) is torch.Tensor for each in gc.get_objects())

    x, twice = torch.linspace(1, 2, 5), torch.func.grad(lambda w: torch.func.grad(loss)(w).square().sum())
    runs = [lambda: torch.func.grad(loss)(x), lambda: twice(x), lambda: torch.func.hessian(loss)(x)]
    expected = [run() for run in runs]
    with context():
        assert all(torch.equal(run(), right) for run, right in zip(runs, expected, strict=True))
        before = count()
        for _ in range(5):
            for run in runs:
                run()
        assert count() == before


@quiet_script
def test_a_result_that_is_overwritten_in_a_transform():
    """It is given back, and refused with torch's own sentence, which names what made it."""

    def gradient(write):
        def loss(w):
            y = w.abs().exp()
            z = (y * w).sum()
            write(y)
            return z

        return torch.func.grad(loss)

    x = torch.linspace(1, 2, 5, dtype=torch.float64)
    with unclobber.guard():
        assert torch.equal(gradient(torch.Tensor.zero_)(x), gradient(lambda y: None)(x))
    with unclobber.watch(), pytest.raises(unclobber.InplaceError, match="output 0 of Zero"):
        gradient(torch.Tensor.zero_)(x)


@quiet_script
@pytest.mark.parametrize(
    "write",
    [
        lambda a: a.fill_(2),
        lambda a: a.zero_(),
        lambda a: a.copy_(a * 2),
        lambda a: a.div_(2),
        lambda a: a.div_(2, rounding_mode="floor"),
        lambda a: a.mul_(torch.tensor(2.0, dtype=a.dtype)),
        lambda a: a.sub_(a.mean()),
        lambda a: a.add_(nn.functional.mse_loss(a * 1, a * 2)),
    ],
    ids=["fill_", "zero_", "copy_", "div_ number", "div_ floor", "mul_ tensor", "mean", "mse_loss"],
)
@pytest.mark.parametrize("transform", ["grad", "jacrev", "jvp", "vmap"])
def test_every_kind_of_kernel_under_a_transform(write, transform):
    """Kernels in Python meet the transforms' wrapped tensors at ADInplaceOrView, and not further down."""
    start = ramp(4, grad=False)

    def run():
        def function(a):
            return write(a.clone())

        if transform == "jvp":
            return torch.func.jvp(function, (start,), (start,))[1]
        if transform == "grad":
            return torch.func.grad(lambda a: function(a).sum())(start)
        return getattr(torch.func, transform)(function)(start.view(2, 2))

    expected = run()
    with unclobber.watch():
        alive = ramp(3).exp()
        assert torch.equal(run(), expected)
    assert alive.grad_fn is not None


def test_write_while_a_graph_outside_the_transform_is_alive():
    """A transform that runs between forward and backward of an ordinary graph."""

    def run(x, overwrite):
        y = x.exp()
        z = (y * y).sum()
        torch.func.grad(body)(x.detach())
        if overwrite:
            y.zero_()
        z.backward()

    assert_as_written(lambda x: run(x, True), lambda x: run(x, False), ramp(4))


@needs("hooks under vmap")
def test_vmap_with_gradients_outside():
    """``vmap`` inside an ordinary graph saves batched tensors; its operands are overwritten later."""

    def run(x, overwrite):
        a = x.detach() * 2
        z = torch.func.vmap(lambda u, v: u * v)(x, a).sum()
        if overwrite:
            a.zero_()
        z.backward()

    assert_as_written(lambda x: run(x, True), lambda x: run(x, False), ramp(3, 2))


def test_functional_call():
    """Parameters that are swapped in for one call."""

    def run(weight, overwrite):
        layer = nn.Linear(2, 2, bias=False).double()
        copy = weight * 1
        x = torch.ones(3, 2, dtype=weight.dtype)
        out = torch.func.functional_call(layer, {"weight": copy}, (x,))
        loss = (torch.func.functional_call(layer, {"weight": copy}, (out,))).sum()
        if overwrite:
            copy.data.zero_()
        loss.backward()

    assert_as_written(lambda w: run(w, True), lambda w: run(w, False), ramp(2, 2), plain="wrong")


def test_fake_tensors():
    """A run on fake tensors has shapes and no values: it goes through, and keeps nothing."""
    from torch._subclasses import FakeTensorMode

    with unclobber.guard() as g, FakeTensorMode():
        w = torch.ones(3, requires_grad=True)
        y = w.exp()
        y.add_(1)
        try:
            y.sum().backward()
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)  # noqa: PT017  (right or refused)
        else:
            assert w.grad.shape == (3,)
    assert g.peak_bytes == 0


def test_meta_tensors():
    """Meta tensors have no memory to keep: right shapes, or refused as torch does."""
    with unclobber.guard() as g:
        w = torch.ones(3, requires_grad=True, device="meta")
        y = w.exp()
        y.add_(1)
        try:
            y.sum().backward()
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)  # noqa: PT017  (right or refused)
        else:
            assert w.grad.shape == (3,)
    assert g.peak_bytes == 0


def test_compiled_with_the_eager_backend():
    """``torch.compile(backend="eager")`` runs the same operations."""
    torch._dynamo.reset()

    @torch.compile(backend="eager")
    def forward(x, a):
        return (x * a).sum()

    def run(x, overwrite):
        a = x.detach() * 2
        z = forward(x, a)
        if overwrite:
            a.zero_()
        z.backward()

    assert_as_written(lambda x: run(x, True), lambda x: run(x, False), ramp(3))
