"""Each differentiable in-place operation, right after another one has saved its target.

Under guard the gradient is that of the operation's out-of-place form, wherever the target lies in
its storage.
"""

import warnings
from collections.abc import Callable
from itertools import islice

import pytest
import torch
from databases import IN_PLACE, SAMPLES, dtype_of, fortieth, op_name
from torch import Tensor

import unclobber
from oracles import unchecked


def base(x: Tensor) -> Tensor:
    return x.clone()


def offset(x: Tensor) -> Tensor:
    """A view that starts behind other elements of the storage."""
    return torch.cat([x.new_ones(3), x.reshape(-1)])[3:].view(x.shape)


def transposed(x: Tensor) -> Tensor:
    """A view whose strides are reversed; every other element of a row where there is one axis."""
    if x.dim() >= 2:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    return torch.stack([x, x], -1).select(-1, 1)


PLACES = (base, offset, transposed)


class RefusedError(Exception):
    """Torch refuses this in-place form for a reason of its own."""


def gradients(operation: Callable[..., Tensor], place, sample, *, in_place: bool) -> list[Tensor]:
    """Gradients after ``y = x * w; operation(x)``, where the product saves ``x``."""
    torch.manual_seed(0)
    leaf = sample.input.detach().clone().requires_grad_()
    w = torch.full_like(leaf, 1.5, requires_grad=True)
    x = place(leaf)
    y = x * w
    try:
        torch.manual_seed(1)
        z = operation(x, *sample.args, **sample.kwargs)
        results = [out for out in (y, x if in_place else z) if out.requires_grad]
        ones = [torch.ones_like(out) for out in results]
        return list(torch.autograd.grad(results, [leaf, w], ones))
    except (RuntimeError, TypeError, ValueError) as error:
        raise RefusedError(str(error)) from error


def faults(op, place, context=unclobber.guard) -> tuple[int, list[str]]:
    """How many samples could be run, and which had another gradient inside ``context``."""
    torch.manual_seed(0)
    samples = islice(op.sample_inputs("cpu", dtype_of(op), requires_grad=False), SAMPLES)
    tried, wrong = 0, []
    for n, sample in enumerate(samples):
        if not isinstance(sample.input, Tensor) or sample.broadcasts_input or sample.input.numel() == 0:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = gradients(op, place, sample, in_place=False)
                with unchecked():
                    gradients(op.inplace_variant, place, sample, in_place=True)
            except RefusedError:
                continue
            with context():
                found = gradients(op.inplace_variant, place, sample, in_place=True)
        tried += 1
        for name, a, b in zip(("input", "w"), found, expected, strict=True):
            if not torch.allclose(a, b, rtol=1e-10, atol=1e-10, equal_nan=True):
                wrong.append(f"sample {n}, gradient of {name}: {a}, expected {b}")
    return tried, wrong


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("op", fortieth(IN_PLACE, op_name))
def test_gradient_of_the_out_of_place_form(op, place):
    """Overwriting what a product saved changes no gradient."""
    tried, wrong = faults(op, place)
    assert not wrong, "\n".join(wrong)
    if not tried:
        pytest.skip("no sample that torch runs in place")


def test_variants_are_there():
    """torch's database has more than a hundred in-place variants."""
    assert len(IN_PLACE) > 100


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_guard_that_does_nothing_is_caught(place):
    """The comparison can fail: without undo the product's gradient is that of the new values."""
    op = next(op for op in IN_PLACE if op.name == "exp")
    tried, wrong = faults(op, place, unchecked)
    assert tried
    assert any("gradient of w" in text for text in wrong)
