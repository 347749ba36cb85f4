"""Dtypes, lazy conjugate and negative bits, and tensors with no or one element."""

import pytest
import torch
from guarded_twins import assert_as_written, ramp

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def complex_leaf(n=4, dtype=torch.complex64):
    real = torch.linspace(0.5, 1.5, n, dtype=torch.float64)
    return torch.complex(real, real.flip(0)).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("part", [slice(None), slice(1, 3)], ids=["whole", "part"])
def test_floats(dtype, part):
    """Values come back in their own dtype, bit for bit."""

    def program(x):
        y = x.exp()
        total = (y * y).sum()
        y[part] = 0
        total.backward()

    assert_as_written(program, square, ramp(4, dtype=dtype))


def square(x):
    y = x.exp()
    (y * y).sum().backward()


@pytest.mark.parametrize(
    "saved",
    [
        lambda a: a,
        lambda a: a.conj(),
        lambda a: a.conj().imag,
        lambda a: a.imag,
        lambda a: a.real[1:],
        lambda a: a.conj()[::2],
        lambda a: a.view(2, 2).mH,
    ],
    ids=["plain", "conj", "neg", "imag", "real part of a slice", "conj slice", "mH"],
)
@pytest.mark.parametrize(
    "write",
    [
        lambda a: a.mul_(2),
        lambda a: a.conj().copy_(a.conj() * 3),
        lambda a: a.imag.zero_(),
        lambda a: a.conj().imag[1:].fill_(3),
        lambda a: a[0].fill_(0),
        lambda a: a.view(torch.float32)[:2].zero_(),
    ],
    ids=["plain", "through conj", "imag", "through neg", "element", "as reals"],
)
def test_lazy_bits(saved, write):
    """Conjugate and negative views share memory with what they view: bits are kept apart from values."""
    start = complex_leaf().detach()

    def program(x):
        a = start.clone()
        product = x * saved(a)
        write(a)
        product.abs().sum().backward()

    def twin(x):
        (x * saved(start.clone())).abs().sum().backward()

    assert_as_written(
        program, twin, torch.ones_like(saved(start)).resolve_conj().resolve_neg().requires_grad_()
    )


@pytest.mark.parametrize(
    ("through", "plain"), [(lambda a: a, "refused"), (lambda a: a.data, "wrong")], ids=["plain", "data"]
)
@pytest.mark.parametrize(
    "view", [lambda a: a.conj(), lambda a: a.conj().imag, lambda a: a.mH], ids=["conj", "neg", "mH"]
)
@pytest.mark.parametrize(
    "write",
    [lambda a: a.add_(1), lambda a: a.exp_(), lambda a: torch.exp(a, out=a)],
    ids=["add_", "exp_", "out="],
)
def test_arithmetic_through_lazy_bits(view, through, plain, write):
    """torch resolves the bits, computes on a copy and copies the result back below ADInplaceOrView."""

    def program(w):
        a = torch.full((2, 2), 2 + 1j, dtype=w.dtype)
        product = (w * a).abs().sum()
        write(view(through(a)))
        product.backward()

    def twin(w):
        (w * torch.full((2, 2), 2 + 1j, dtype=w.dtype)).abs().sum().backward()

    leaf = complex_leaf().detach().view(2, 2).requires_grad_()
    assert_as_written(program, twin, leaf, plain=plain)


def test_bool_mask():
    """A saved mask is restored."""

    def program(x):
        mask = torch.tensor([True, False, True])
        picked = torch.where(mask, x, 2 * x)
        mask.logical_not_()
        picked.sum().backward()

    def twin(x):
        torch.where(torch.tensor([True, False, True]), x, 2 * x).sum().backward()

    assert_as_written(program, twin, ramp(3))


def test_integer_memory_seen_as_floats():
    """Memory saved as floats and written as integers is one memory."""

    def program(x):
        words = torch.full((4,), 0x3F800000, dtype=torch.int32)
        product = x * words.view(torch.float32)
        words[1:3] = 0x40000000
        product.sum().backward()

    def twin(x):
        (x * torch.ones(4)).sum().backward()

    assert_as_written(program, twin, ramp(4, dtype=torch.float32))


def test_bytes_written_one_by_one():
    """A write of single bytes changes parts of elements."""

    def program(x):
        a = torch.ones(4, dtype=x.dtype)
        product = x * a
        a.view(torch.uint8)[3::5] = 17
        product.sum().backward()

    assert_as_written(program, lambda x: (x * torch.ones(4, dtype=x.dtype)).sum().backward(), ramp(4))


def test_zero_dim():
    """A scalar tensor has one element, which is kept."""

    def program(x):
        y = x.exp()
        total = y * y
        y.zero_()
        total.backward()

    assert_as_written(program, square, ramp())


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4)], ids=str)
def test_no_elements(shape):
    """A write to nothing destroys nothing, though torch counts it as a write."""

    def program(x):
        y = x.exp()
        total = (y * y).sum()
        y.add_(1)
        total.backward()

    assert_as_written(program, square, ramp(*shape))


def test_nan_and_signed_zero_come_back():
    """Restored values are equal bit for bit."""
    values = torch.tensor([float("nan"), -0.0, float("inf"), 5e-324], dtype=torch.float64)

    def program(x):
        a = values.clone()
        product = x * a
        a.zero_()
        product.backward(torch.ones_like(product))

    def twin(x):
        product = x * values.clone()
        product.backward(torch.ones_like(product))

    assert_as_written(program, twin, ramp(4))
