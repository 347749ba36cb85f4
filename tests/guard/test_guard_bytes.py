"""What is kept is bounded by what was overwritten while it was needed."""

import pytest
import torch

import unclobber

ROW = 400  # bytes: 100 float32
TABLE = 1000 * ROW


def mask():
    mask = torch.zeros(1000, 100, dtype=torch.bool)
    mask[3, :7] = True
    return mask


WRITES = {
    "one row": (lambda b: b[5].zero_(), ROW),
    "the same row 50 times": (lambda b: [b[5].add_(1) for _ in range(50)], ROW),
    "one column": (lambda b: b[:, 3].zero_(), 4000),
    "whole, 10 times": (lambda b: [b.mul_(2) for _ in range(10)], TABLE),
    "two rows by index": (lambda b: b.__setitem__(torch.tensor([5, 9]), 0.0), 2 * ROW + 16),
    "7 elements by masked_fill_": (lambda b: b.masked_fill_(mask(), 0.0), 100_000 + 28),
    "7 elements by x[mask] = v": (lambda b: b.__setitem__(mask(), torch.zeros(7)), 100_000 + 28),
    "index_add_": (lambda b: b.index_add_(0, torch.tensor([1]), torch.ones(1, 100)), ROW + 8),
    "index_copy_": (lambda b: b.index_copy_(0, torch.tensor([1]), torch.ones(1, 100)), ROW + 8),
    "index_fill_": (lambda b: b.index_fill_(0, torch.tensor([1, 7]), 3.0), 2 * ROW + 16),
    "scatter_": (lambda b: b.scatter_(0, torch.zeros(1, 100, dtype=torch.long), 1.0), ROW + 800),
    "rows in random order, 3,000 times": (
        lambda b: [b[i * 7919 % 1000].add_(1) for i in range(3000)],
        2 * TABLE + ROW,
    ),
    "elements of one row": (lambda b: [b[0, i % 100].add_(1) for i in range(300)], ROW),
    "out of reach of the save": (lambda b: torch.zeros(1000, 100).add_(b), 0),
}


@pytest.mark.parametrize(("write", "bound"), WRITES.values(), ids=WRITES.keys())
def test_bound(write, bound):
    """The kept bytes, and none of them once the graph is gone."""
    w = torch.rand(1000, 100, requires_grad=True)
    with unclobber.guard() as g:
        b = torch.rand(1000, 100)
        before = b.clone()
        y = w * b
        write(b)
        assert g.kept_bytes <= g.peak_bytes <= bound
        y.sum().backward()
        del y
        assert g.kept_bytes == 0
    assert torch.equal(w.grad, before)


def test_small_save_of_a_large_memory():
    """The save is the smaller of the two: it is what is kept."""
    w = torch.rand(100, requires_grad=True)
    with unclobber.guard() as g:
        b = torch.rand(1000, 100)
        y = w * b[17]
        b.zero_()
        assert g.kept_bytes == ROW
        del y


@pytest.mark.parametrize("steps", [50, 200])
def test_table_saved_whole_at_each_step(steps):
    """Each step saves the table and overwrites one row: linear in steps, not steps times the table."""
    double = torch.float64
    w = torch.rand(steps, 16, dtype=double, requires_grad=True)
    with unclobber.guard() as g:
        table = torch.rand(steps, 16, dtype=double)
        total = torch.zeros((), dtype=double)
        expected = torch.zeros(steps, 16, dtype=double)
        for step in range(steps):
            expected += table
            total = total + (w * table).sum()
            table[step] = step
        assert g.kept_bytes <= 1.1 * steps * 128
        total.backward()
    torch.testing.assert_close(w.grad, expected)


def test_expanded_save_is_kept_once():
    """An expanded operand has one row of memory."""
    w = torch.rand(1000, 100, requires_grad=True)
    with unclobber.guard() as g:
        row = torch.rand(100)
        before = row.clone()
        y = w * row.expand(1000, 100)
        row.zero_()
        assert g.kept_bytes == ROW
        y.sum().backward()
    assert torch.equal(w.grad, before.expand(1000, 100))


def test_one_copy_for_many_saves():
    """Saves of one geometry share a record."""
    w = torch.rand(100, requires_grad=True)
    with unclobber.guard() as g:
        b = torch.rand(100)
        products = [w * b for _ in range(20)]
        b.zero_()
        assert g.kept_bytes == ROW
        del products


def test_peak_survives():
    """``peak_bytes`` is the most that was kept, also after the end."""
    w = torch.rand(100, requires_grad=True)
    with unclobber.guard() as g:
        for _ in range(3):
            y = w.exp()
            y.zero_()
            y.sum().backward()
    assert (g.peak_bytes, g.kept_bytes) == (ROW, 0)
