"""A helper that is called in several places: which call saved, and which overwrote."""

from __future__ import annotations

import os

import pytest

import unclobber
from unclobber.report._callers import callers

HELPERS = """
import functools
import torch

def traced(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)
    return inner

def scale(x, table):
    y = x * table
    table += 1
    return y

@traced
def traced_scale(x, table):
    y = x * table
    table += 1
    return y

def keep(x, table):
    return x * table

def shift(table):
    table += 1

table = torch.ones(3)
x = torch.ones(3, requires_grad=True)
"""


@pytest.fixture
def said(tmp_path):
    """What is said of the calls in a program, with the lines of its body numbered from 1."""

    def said(body):
        path = tmp_path / "program.py"
        path.write_text(HELPERS + body)
        os.utime(path, (1, 1))  # older than this process: its text is what runs
        code = compile(path.read_text(), str(path), "exec")
        with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
            exec(code, {"__name__": "program"})
        texts = callers(caught.value.finding)
        before = HELPERS.count("\n")
        for line in range(1, body.count("\n") + 2):
            texts = [text.replace(f"{path}:{before + line}", f"line {line}") for text in texts]
        return texts

    return said


def test_one_of_two_calls(said):
    body = "a = scale(x, table)\nb = scale(x, torch.ones(3))\na.sum().backward()"
    assert said(body) == ["`scale` was called from line 1 (`a = scale(x, table)`)"]


def test_the_only_call(said):
    """Nothing is to be told."""
    assert said("a = scale(x, table)\na.sum().backward()") == []


def test_a_hook_of_a_module(said):
    """No line of the program's calls it."""
    body = (
        "def halve(module, args, output):\n    output /= 2\n"
        "net = torch.nn.Tanh()\nnet.register_forward_hook(halve)\nnet(x).sum().backward()"
    )
    assert said(body) == ["`halve` is a hook, which torch ran in line 5 (`net(x).sum().backward()`)"]


def test_through_a_decorator(said):
    """A decorated function's call is found by the decorator's name."""
    body = "a = traced_scale(x, table)\nb = traced_scale(x, torch.ones(3))\na.sum().backward()"
    assert said(body) == ["`traced_scale` was called from line 1 (`a = traced_scale(x, table)`)"]


def test_saved_in_one_overwritten_in_another(said):
    body = "a = keep(x, table)\nb = keep(x, a)\nshift(torch.ones(3))\nshift(table)\na.sum().backward()"
    assert said(body) == [
        "it was saved when `keep` was called from line 1 (`a = keep(x, table)`)",
        "it was overwritten when `shift` was called from line 4 (`shift(table)`)",
    ]


def test_a_caller_of_the_caller(said):
    """The helper is called in one place, in a function that is called in two."""
    body = (
        "def outer(table):\n    return scale(x, table)\n"
        "a = outer(table)\nb = outer(torch.ones(3))\na.sum().backward()"
    )
    assert said(body) == ["`outer` was called from line 3 (`a = outer(table)`)"]


def test_a_line_that_is_shown_anyway(said):
    assert said("scale(x, torch.ones(3))\nscale(x, table).sum().backward()") == []


def test_the_only_call_that_writes_weights(said):
    """It is the line that has to move, although only one place calls the function."""
    body = """net = torch.nn.Linear(3, 3)
@torch.no_grad()
def clip(module):
    for p in module.parameters():
        p.clamp_(-1, 1)
z = net(torch.stack([x, x]).exp()).sum()
clip(net)
z.backward()
"""
    assert said(body) == ["`clip` was called from line 7 (`clip(net)`)"]
