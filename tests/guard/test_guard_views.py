"""Writes through views, bases and siblings of what was saved."""

from contextlib import nullcontext

import pytest
import torch
from guarded_twins import assert_as_written, ramp
from torch.nn import functional

import unclobber

SAVED = {
    "base": lambda a: a,
    "row": lambda a: a[1],
    "column": lambda a: a[:, 2],
    "transposed": lambda a: a.t(),
    "offset": lambda a: a[1:, 1:],
    "strided": lambda a: a[::2, ::3],
    "diagonal": lambda a: a.diagonal(),
    "view of views": lambda a: a[1:].t()[1:3].flatten()[2:],
    "expanded": lambda a: a[0].expand(3, 4),
    "0-dim": lambda a: a[1, 2],
    "windows": lambda a: a.view(-1).unfold(0, 3, 1),
    "self-overlapping": lambda a: a.as_strided((3, 3), (1, 1), 2),
    "empty": lambda a: a[:0],
}
WRITES = {
    "whole": lambda a: a.mul_(2),
    "row": lambda a: a[1].zero_(),
    "column": lambda a: a[:, 2].neg_(),
    "element": lambda a: a[1, 2].fill_(7),
    "through a view of a view": lambda a: a.t()[1:][:2].add_(3),
    "setitem": lambda a: a.__setitem__((slice(1, 3), slice(None, None, 2)), 5.0),
    "setitem by mask": lambda a: a.__setitem__(a > 1, 0.0),
    "setitem by index": lambda a: a.__setitem__(torch.tensor([2, 0]), torch.full((4,), 9.0, dtype=a.dtype)),
    "data": lambda a: a.data.add_(1),
    "data of a view": lambda a: a[1:].data.add_(1),
    "detached": lambda a: a.detach().sqrt_(),
    "dtype view": lambda a: a.data.view(torch.int64)[0].fill_(1),
    "flat": lambda a: a.view(-1)[3:7].copy_(torch.arange(4.0)),
    "as_strided": lambda a: a.as_strided((2, 2), (5, 1), 1).mul_(3),
    "twice": lambda a: (a[0].add_(1), a[:, 0].add_(1)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize("view", SAVED.values(), ids=SAVED.keys())
def test_constant_operand(view, write):
    """The gradient of ``w`` is the operand as it was multiplied, whoever writes to its memory later."""
    start = ramp(3, 4, grad=False)
    expected = view(start.clone()).clone()
    w = torch.ones_like(expected).requires_grad_()
    with unclobber.guard() as g:
        a = start.clone()
        product = w * view(a)
        write(a)
        product.sum().backward()
    assert torch.equal(w.grad, expected)
    del product
    assert g.kept_bytes == 0


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize("view", SAVED.values(), ids=SAVED.keys())
def test_result_of_an_operation(view, write):
    """The same where the memory is part of a graph, which the write re-bases (CopySlices)."""
    x = ramp(3, 4)
    (expected,) = torch.autograd.grad((view(x.exp()) ** 3).sum(), x)
    with unclobber.guard():
        a = x.exp()
        before = (view(a) ** 3).sum()
        write(a)
        (got,) = torch.autograd.grad(before, x)
    assert torch.equal(got, expected)


def test_offset_view_that_allow_mutation_gets_wrong():
    """A write through a view at an offset is seen as a write to the base."""

    def program(w):
        a = w.exp()
        s = (a**2).sum()
        a[2] = 0
        s.backward()

    assert_as_written(program, lambda w: (w.exp() ** 2).sum().backward(), ramp(5))


def test_gradient_flows_through_the_writes():
    """What is written in place is part of the graph, and each derivative uses its own values."""

    def program(x, v):
        a = x.exp()
        first = a * a
        a[1:3].mul_(v)
        second = a.sin()
        a.t()[0].add_(v[0])
        (first.sum() + second.sum() + (a**3).sum()).backward()

    def twin(x, v):
        a = x.exp()
        first = a * a
        b = torch.cat([a[:1], a[1:3] * v, a[3:]])
        second = b.sin()
        c = torch.cat([(b[:, :1] + v[0]), b[:, 1:]], 1)
        (first.sum() + second.sum() + (c**3).sum()).backward()

    a, b = (ramp(4, 1), ramp(1)), (ramp(4, 1), ramp(1))
    twin(*a)
    with unclobber.guard():
        program(*b)
    for got, expected in zip(b, a, strict=True):
        torch.testing.assert_close(got.grad, expected.grad, rtol=1e-14, atol=0)


def test_two_saves_between_two_writes():
    """Each save gets the values of its own time, newest and oldest alike."""

    def program(x):
        a = torch.ones(3, dtype=x.dtype)
        terms = []
        for step in range(5):
            terms.append(x * a)
            a[step % 3] += 1
        torch.stack(terms).sum().backward()

    def twin(x):
        a = torch.ones(3, dtype=x.dtype)
        terms = []
        for step in range(5):
            terms.append(x * a.clone())
            a[step % 3] += 1
        torch.stack(terms).sum().backward()

    assert_as_written(program, twin, ramp(3))


def test_disjoint_writes_keep_nothing():
    """torch refuses a write to other elements of the storage; it costs no memory here."""

    def program(x):
        table = torch.ones(4, 3, dtype=x.dtype)
        product = x * table[0]
        table[1:] = 7
        table[3].add_(1)
        product.sum().backward()

    def twin(x):
        (x * torch.ones(3, dtype=x.dtype)).sum().backward()

    assert assert_as_written(program, twin, ramp(3)).peak_bytes == 0


@pytest.mark.parametrize("write", ["set_", "resize_", "unsqueeze_", "t_", "as_strided_"])
def test_writes_to_metadata_change_no_value(write):
    """The saved tensor is another view: reshaping the variable leaves it alone."""

    def program(x):
        a = x.detach().clone()
        product = (x * a).sum()
        if write == "set_":
            a.set_(torch.zeros(6, dtype=x.dtype))
        elif write == "resize_":
            a.resize_(1, 2)
        elif write == "unsqueeze_":
            a.unsqueeze_(0)
        elif write == "t_":
            a.t_()
        else:
            a.as_strided_((1,), (1,))
        product.backward()

    def twin(x):
        (x * x.detach().clone()).sum().backward()

    x = ramp(2, 3)
    twin(x)
    expected, x.grad = x.grad, None
    with unclobber.guard():
        program(x)
    assert torch.equal(x.grad, expected)


@pytest.mark.parametrize("size", [4, 400], ids=["small", "large"])
@pytest.mark.parametrize(
    "how",
    [
        "as it is",
        "transposed",
        "channels last",
        "1x1 kernels",
        "every other kernel",
        "windows",
        "every other window",
    ],
)
def test_a_value_comes_back_in_its_layout(how, size):
    """Strides are those of what was saved, for kernels round differently for others."""
    layout = {
        "as it is": lambda a: a,
        "transposed": lambda a: a.t(),
        "channels last": lambda a: a.view(2, 2, 2, -1).permute(0, 3, 1, 2),
        "1x1 kernels": lambda a: a[:, :, None, None],
        "every other kernel": lambda a: a.view(8, -1, 1, 1)[:, ::2],
        "windows": lambda a: a.unfold(0, 2, 1)[1:],
        "every other window": lambda a: a.unfold(0, 3, 1)[::2],
    }[how]
    memory = torch.randn(8, size)
    saved = layout(memory)
    kept = saved.clone()
    with unclobber.guard():
        product = torch.ones_like(saved).requires_grad_() * saved
        memory.add_(1)
        value = product.grad_fn._saved_other
    if how != "every other kernel":  # a gap may be narrower
        assert value.stride() == saved.stride()
    for layout in (torch.contiguous_format, torch.channels_last):
        if saved.dim() == 4:
            assert value.is_contiguous(memory_format=layout) == saved.is_contiguous(memory_format=layout)
    assert torch.equal(value, kept)


def test_kernels_of_one_pixel_come_back_bit_equal():
    """Their strides say both that channels come first and that they come last."""

    def gradients(context, write):
        torch.manual_seed(0)
        net = torch.nn.Conv2d(16, 96, 1)
        x = torch.randn(4, 16, 16, 16, requires_grad=True)
        with context:
            y = net(x)
            if write:
                with torch.no_grad():
                    net.weight.add_(0.01)
            y.square().sum().backward()
        return x.grad, net.weight.grad

    plain, guarded = gradients(nullcontext(), False), gradients(unclobber.guard(), True)
    assert all(torch.equal(a, b) for a, b in zip(plain, guarded, strict=True))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.expand(2, *x.shape),
        lambda x: x.expand(2, *x.shape).mT,
        lambda x: x[:, ::2],
        lambda x: x[:, 1::3],
        lambda x: x[::3],
        lambda x: x[1:-1, 1:-1],
        torch.Tensor.diagonal,
    ],
    ids=["expanded", "expanded and transposed", "every other", "every third", "rows", "inner", "diagonal"],
)
@pytest.mark.parametrize("function", [functional.gelu, functional.mish, torch.std])
@pytest.mark.parametrize("write", [lambda x: x.mul_(0.5), lambda x: x[0].mul_(0.5)], ids=["whole", "part"])
def test_gradients_through_a_view_are_equal_to_the_last_bit(view, function, write):
    """Kernels take other ways where elements lie apart or are expanded, and round differently there."""

    def gradient(write):
        x = torch.arange(42, dtype=torch.float64).mul(1.7).cos().view(6, 7).requires_grad_()
        loss = function(view(x)).tanh().sum()
        write(x.data)
        loss.backward()
        return x.grad

    with unclobber.guard():
        guarded = gradient(write)
    assert torch.equal(guarded, gradient(lambda x: None))
