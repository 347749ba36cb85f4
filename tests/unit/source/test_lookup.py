"""Values of expressions in a frame, without running the program's code."""

import ast
import sys
from collections import OrderedDict, defaultdict
from typing import NamedTuple

import pytest
import torch

from unclobber.source.values import UNKNOWN, function_of, value_of


class Loud:
    """Every way to run code of this object is a failure."""

    quiet = 3

    def __init__(self):
        self.own = [torch.ones(2)]

    def __getattr__(self, name):
        raise AssertionError(f"asked for {name}")

    def __getitem__(self, key):
        raise AssertionError(f"asked for {key}")

    @property
    def computed(self):
        raise AssertionError("computed")


def test_what_simply_lies_there():
    loud = Loud()
    net = torch.nn.Sequential(torch.nn.Linear(2, 2))
    frame = sys._getframe()

    def value(text):
        return value_of(ast.parse(text, mode="eval").body, frame)

    assert value("loud.own[0]") is loud.own[0]
    assert value("loud.own[-1]") is loud.own[0]
    assert value("net[0].weight") is net[0].weight
    assert value("net[-1].bias") is net[0].bias
    assert value("loud.own[0].mul_(2)") is loud.own[0]
    assert value("torch.nn") is torch.nn


@pytest.mark.parametrize(
    "text",
    ["loud.missing", "loud.computed", "loud[0]", "loud()", "own + own", "tensor.data", "tensor[0]", "nobody"],
)
def test_what_would_run_code(text):
    """Unknown, and nothing was run: ``Loud`` would have raised, a tensor's view is a new object."""
    loud, own, tensor = Loud(), [1], torch.ones(2)
    assert loud.quiet + len(own) + tensor.numel() == 6
    assert value_of(ast.parse(text, mode="eval").body, sys._getframe()) is UNKNOWN


class Shouting(dict):
    """A dictionary whose elements are read by code of the program."""

    def __getitem__(self, key):
        raise AssertionError(f"asked for {key}")


def test_an_element_is_read_without_code_of_its_dictionary():
    """A missing element of a ``defaultdict`` isn't made, and a program's ``__getitem__`` isn't run."""
    counted, shouting = defaultdict(list, old=[1]), Shouting(old=2)
    ordered = OrderedDict(old=3)
    frame = sys._getframe()

    def value(text):
        return value_of(ast.parse(text, mode="eval").body, frame)

    assert (value("counted['old']"), value("ordered['old']")) == ([1], 3)
    assert value("counted['new']") is value("shouting['old']") is value("ordered['new']") is UNKNOWN
    assert (len(counted), len(shouting), len(ordered)) == (1, 1, 1)


def test_the_gradient_of_a_leaf_but_no_warning_for_others():
    leaf = torch.ones(2, requires_grad=True)
    inner = leaf * 2
    inner.sum().backward()
    frame = sys._getframe()
    assert value_of(ast.parse("leaf.grad", mode="eval").body, frame) is leaf.grad
    assert value_of(ast.parse("inner.grad", mode="eval").body, frame) is UNKNOWN


def test_functions_past_torchs_decorators():
    @torch.no_grad()
    def plain(x):
        return x

    def wrapper(x):
        return plain(x)

    wrapper.__wrapped__ = plain
    assert function_of(plain).__qualname__.endswith("plain")
    assert function_of(wrapper) is None  # somebody else's decorator may do anything
    assert function_of(torch.add) is None


def test_a_module_with_hooks_does_more_than_its_forward():
    class Own(torch.nn.Module):
        def forward(self, x):
            return x

    module = Own()
    assert function_of(module) is Own.forward
    module.register_forward_hook(lambda *_: None)
    assert function_of(module) is None


class Pair(NamedTuple):
    first: int
    second: int


class Slotted:
    __slots__ = ("never", "set_")

    def __init__(self):
        self.set_ = 5


def test_fields_of_named_tuples_and_slots():
    """They lie in the object, though not in a ``__dict__``."""
    pair, slotted = Pair(1, 2), Slotted()
    frame = sys._getframe()

    def value(text):
        return value_of(ast.parse(text, mode="eval").body, frame)

    assert (value("pair.second"), value("slotted.set_")) == (pair.second, slotted.set_)
    assert value("slotted.never") is UNKNOWN
