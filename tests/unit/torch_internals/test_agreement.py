"""Which differences of two tensors rounding explains."""

from __future__ import annotations

import math

import pytest
import torch

from unclobber.torch_internals.agreement import compared, difference

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("by", [0.0, 1e-15, 1e-9, 1.0])
def test_difference_is_relative_to_the_largest_element(by):
    """Equal, rounded and changed numbers are told apart."""
    a = torch.tensor([1.0, 1e3], dtype=torch.float64)
    found = compared(a, a + torch.tensor([by, 0.0], dtype=torch.float64))
    assert found.relative == pytest.approx(by / 1e3, rel=0.3)
    assert (found.relative > 0) == (by > 0)
    assert found.is_rounding == (by <= 1e-11)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_same_values_that_are_not_finite_are_equal(value):
    a = torch.tensor([1.0, value])
    assert difference(a, a.clone()) == 0.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1.0, NAN], [1.0, 0.0]),
        ([1.0, 0.0], [1.0, NAN]),
        ([1.0, INF], [1.0, torch.finfo(torch.float32).max]),
        ([1.0, INF], [1.0, -INF]),
        ([1.0, INF], [1.0, NAN]),
        ([complex(NAN, 1)], [complex(NAN, 2)]),
        ([1_000_000_000], [1_000_000_001]),
        ([True], [False]),
        ([1.0], [1.0, 1.0]),
        ([1.0], [1]),
    ],
)
def test_what_no_rounding_explains(one, other):
    """NaN that becomes 0, another infinity, integer, shape or dtype is infinitely different."""
    assert difference(torch.tensor(one), torch.tensor(other)) == INF


def test_numbers_beside_nan_are_compared():
    """A NaN at the same place in both hides no difference elsewhere."""
    assert difference(torch.tensor([NAN, 2.0]), torch.tensor([NAN, 1.0])) == 0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.complex64])
def test_one_epsilon_is_rounding(dtype):
    """The last digit may differ in each dtype, a tenth of the number in none that has so many digits."""
    a = torch.ones(3, dtype=dtype)
    found = compared(a, a * (1 + torch.finfo(dtype).eps))
    assert found.relative > 0
    assert found.is_rounding
    assert not compared(a, a * 2).is_rounding


def test_sparse_gradients_are_compared():
    """An embedding's sparse gradient is compared by its values."""
    a = torch.tensor([0.0, 2.0]).to_sparse()
    assert difference(a, a.clone()) == 0.0
    assert difference(a, a * 2) == 0.5


def test_empty_tensors_are_equal():
    assert difference(torch.ones(0), torch.ones(0)) == 0.0
