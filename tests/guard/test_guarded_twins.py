"""The comparison itself tells right from wrong."""

import pytest
import torch
from guarded_twins import assert_as_written, fate, ramp, results, same


def overwrites(x):
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def twin(x):
    y = x.exp()
    (y + 1).sum().backward()


def test_a_right_twin_passes():
    """The plain case holds, and says what was kept."""
    assert assert_as_written(overwrites, twin, ramp(3)).peak_bytes == 24


def test_a_wrong_twin_fails():
    """A difference in one gradient is noticed."""
    with pytest.raises(AssertionError, match="not the twin's results\n0: guarded"):
        assert_as_written(overwrites, lambda x: (2 * x.exp()).sum().backward(), ramp(3))


def test_a_program_without_a_conflict_is_no_test():
    """What torch gets right by itself must be said to be so."""
    with pytest.raises(AssertionError, match="right"):
        assert_as_written(twin, twin, ramp(3))


def test_fates():
    """Refused, wrong and right are told apart; errors of other kinds pass through."""
    expected = results(twin, [ramp(3)])

    def silent(x):
        y = x.exp()
        y.data.add_(1)
        y.sum().backward()

    assert [fate(p, [ramp(3)], expected) for p in (overwrites, silent, twin)] == ["refused", "wrong", "right"]
    with pytest.raises(RuntimeError, match="leaf"):
        fate(lambda x: x.add_(1), [ramp(3)], expected)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([None], [torch.zeros(1)]),
        ([torch.zeros(1)], [torch.zeros(1, dtype=torch.float64)]),
        ([torch.zeros(1)], [torch.zeros(1, 1)]),
        ([torch.tensor(0.0)], [torch.tensor(-0.0)]),
        ([torch.zeros(1)], []),
    ],
)
def test_results_that_differ(a, b):
    """None, dtype, shape, the sign of zero and the number of results all count."""
    assert same(a, a)
    assert not same(a, b)
