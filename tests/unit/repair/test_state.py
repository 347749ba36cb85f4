"""What of a program's state counts as another one at its end."""

from __future__ import annotations

import functools

import numpy
import pytest
import torch
from torch import nn

from unclobber.repair._job import Against
from unclobber.repair._state import Walk, differences


class _Thing:
    def __init__(self, **names):
        vars(self).update(names)


def _state(names, others=()):
    return Walk(frozenset({__name__.partition(".")[0]})).walk({"__main__": names}, others)


def _difference(one, other, **options):
    return [
        found.what for found in differences(_state({"x": one}), _state({"x": other}), Against("", **options))
    ]


def _net(scale=1.0, *, batches=0):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    net[0].weight.data *= scale
    net[1].num_batches_tracked += batches
    return net


def _decorated(function):
    return torch.no_grad()(function)


def _function():
    return 1


def _closure(value):
    return lambda: value


def _optimizer(momentum):
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=momentum)
    net(torch.ones(2, 2)).sum().backward()
    optimizer.step()
    return optimizer


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        (torch.ones(2), torch.zeros(2), "x"),
        (torch.ones(2), torch.ones(2, dtype=torch.float64), "x"),
        (torch.ones(2), torch.ones(2, requires_grad=True), "x"),
        (_net(), _net(2.0), "x._modules['0']._parameters['weight']"),
        (_net(), _net(batches=1), "x._modules['1']._buffers['num_batches_tracked']"),
        (_Thing(last=torch.ones(1)), _Thing(last=torch.zeros(1)), "x.last"),
        (_Thing(mean=0.5), _Thing(mean=0.75), "x.mean"),
        ([1, {"h": torch.ones(1)}], [1, {"h": torch.zeros(1)}], "x[1]['h']"),
        ([1, 2], [1, 2, 3], "x"),
        (_closure(torch.ones(1)), _closure(torch.zeros(1)), "x.value"),
        (functools.partial(print, torch.ones(1)), functools.partial(print, torch.zeros(1)), "x.args[0]"),
        ((t for t in [torch.ones(1)]), (t for t in [torch.zeros(1)]), None),
        (_Thing(h=torch.ones(1)), _Thing(), "x.h"),
        ("a", "b", "x"),
        (torch.eye(2).to_sparse(), (2 * torch.eye(2)).to_sparse(), "x"),
        (numpy.ones(2), numpy.zeros(2), "x"),
        (numpy.ones(2, ">f4"), numpy.zeros(2, ">f4"), "x"),
        (numpy.ones(2, numpy.longdouble), numpy.zeros(2, numpy.longdouble), "x"),
    ],
)  # fmt: skip
def test_what_differs(one, other, where):
    """It is told by its place. What an iterator has in store is not looked into."""
    assert _difference(one, other) == ([] if where is None else [where])
    assert _difference(one, one) == []


def test_optimizers_are_looked_into():
    """Their momentum buffers, too."""
    found = _difference(_optimizer(0.5), _optimizer(0.9))
    assert any("momentum" in place for place in found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.ones(2), torch.ones(2) * (1 + 2**-22)),
        (0.1, 0.1 + 1e-9),
        (float("nan"), float("nan")),
        (id(object()) | 2**40, 2**41),
        (_Thing(a=1), _Thing(a=1, b=2)),
        (nn.ReLU(inplace=True), nn.ReLU()),
        (_decorated(_function), _function),
        (nn.Parameter(torch.ones(1)), torch.ones(1, requires_grad=True)),
        (nn.LazyLinear(2).weight, nn.LazyLinear(2).weight),
    ],
    ids=["rounding", "float", "nan", "identity", "more", "inplace", "decorator", "parameter", "lazy"],
)
def test_what_does_not(one, other):
    """Roundings, identities, what a fixer adds, and how a module works inside."""
    assert _difference(one, other) == []


def test_a_clock():
    """Two runs of a program read it within rounding, a third one doesn't: so those two count bit for bit."""
    assert _difference(39183.7597, 39183.7598) == []
    assert _difference(39183.7597, 39183.7598, exactly=True) == ["x"]
    assert _difference(39183.7597, 39183.9588) == ["x"]
    assert _difference(float("nan"), float("nan"), exactly=True) == []


def test_cycles_and_aliases():
    """Each object is one row; the same tensor under two names or two equal ones are compared by value."""
    one, other = _Thing(h=torch.ones(1)), _Thing(h=torch.ones(1))
    one.me, one.again = one, one.h
    other.me, other.again = other, torch.ones(1)
    assert _difference(one, other) == []
    other.again += 1
    assert _difference(one, other) == ["x.again"]


def test_names_that_nobody_reads():
    """They may keep what they held."""
    assert _difference(torch.ones(1), torch.zeros(1), never_read_again=frozenset({"x"})) == []


def test_what_is_cut_off_its_graph():
    """Where that is what the fixer is for."""
    one, other = torch.ones(1, requires_grad=True), torch.ones(1)
    assert _difference(one, other) == ["x"]
    assert _difference(one, other, detaches=True) == []
    assert _difference(other, one, detaches=True) == ["x"]


def test_modules_that_no_name_leads_to():
    """Any pairing that agrees will do, and there must be one."""
    a, b = _state({}, [_net(), _net(2.0)]), _state({}, [_net(2.0), _net()])
    assert differences(a, b, Against("")) == []
    assert differences(a, _state({}, [_net(2.0), _net(3.0)]), Against("")) != []
