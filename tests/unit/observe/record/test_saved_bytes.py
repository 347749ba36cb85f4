"""``audit(...).bytes_by_line``: each storage once, for the line that saved it first, at the peak."""

from __future__ import annotations

import sys

import pytest
import torch

import unclobber

N = 1000
BYTES = 4 * N


def lines(step, *args):
    """Bytes by line of this file, counted from the first line of ``step``."""
    report = unclobber.audit(step, *args)
    first = step.__code__.co_firstlineno
    assert all(path == __file__ for path, _ in report.bytes_by_line)
    return {line - first: count for (_, line), count in report.bytes_by_line.items()}, report


def test_results_count_and_parameters_do_not():
    weight = torch.ones(N, requires_grad=True)

    def step():
        y = weight.exp()
        z = y * weight
        z.sum().backward()

    found, report = lines(step)
    assert found == {1: BYTES}  # `y` is saved by exp and by the product: once, where it came first
    assert report.saves == 3
    assert report.writes == 0


def test_the_peak_is_what_counts():
    """A second, smaller graph after the first is freed adds nothing."""
    x = torch.ones(N, requires_grad=True)

    def step():
        x.exp().sum().backward()
        x[:10].exp().sum().backward()

    found, _ = lines(step)
    assert found == {1: BYTES}


def test_two_graphs_alive_at_once():
    x = torch.ones(N, requires_grad=True)

    def step():
        first = x.exp()
        second = x[:10].exp().sin()
        (first.sum() + second.sum()).backward()

    found, _ = lines(step)
    assert found == {1: BYTES, 2: 40}


def test_largest_first():
    """The line that keeps most comes first."""
    x = torch.ones(N, requires_grad=True)

    def step():
        small = x[:10].exp()
        large = x.exp()
        (small.sum() + large.sum()).backward()

    assert list(lines(step)[0]) == [2, 1]


def test_watch_counts_nothing():
    """Only ``audit`` pays for it."""
    with unclobber.watch() as watched:
        torch.ones(3, requires_grad=True).exp().sum().backward()
    assert watched._last.report().bytes_by_line == {}


@pytest.mark.parametrize("times", [1, 50])
def test_nothing_is_kept_afterwards(times):
    """The count holds no tensor: each graph dies as soon as the program lets go of it."""
    x = torch.ones(N, requires_grad=True)

    def step():
        for _ in range(times):
            y = x.exp()
            assert sys.getrefcount(y) == 2
            y.sum().backward()
            del y

    found, _ = lines(step)
    assert found == {2: BYTES}


def test_a_save_at_the_recursion_limit(monkeypatch):
    """A save whose line could not be looked for is no line's, and dies without a word."""
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    def step():
        def depth(x):
            try:
                return depth(x.sin())
            except RecursionError:
                return x

        depth(torch.ones(2, requires_grad=True)).sum().backward()

    unclobber.audit(step)
    assert [str(each.exc_value) for each in unraisable] == []
