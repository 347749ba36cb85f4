"""Who wrote: the module or the optimizer whose code was running, and not the one that called the user's."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

import unclobber
from unclobber.source import frames


class Closure:
    """As Lightning's: an object that is called."""

    def __init__(self, function):
        self.function = function

    def __call__(self):
        return self.function()

    def method(self):
        return self.function()


GIVEN = {
    "a function": lambda function: function,
    "a method": lambda function: Closure(function).method,
    "an object": Closure,
    "a partial": lambda function: functools.partial(functools.partial(lambda f: f(), function)),
    "not Python's own": lambda function: functools.lru_cache(maxsize=None)(function),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("by_name", [False, True], ids=["by position", "by name"])
def test_what_a_closure_writes_is_not_the_optimizers(given, by_name):
    """The training step that ``step(closure)`` runs is the user's code."""
    layer = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def closure():
        gate = layer(torch.ones(1, 3)).sigmoid()
        gate[0, 0] = 7.0
        gate.sum().backward()

    def step():
        wrapped = GIVEN[given](closure)
        if by_name:
            optimizer.step(closure=wrapped)
        else:
            optimizer.step(wrapped)

    (finding,) = unclobber.audit(step).findings
    assert finding.writes[0].site.statement == "gate[0, 0] = 7.0"
    assert finding.writes[0].optimizer is None
    assert not any("step" in fix.title for fix in finding.fixes)


@pytest.mark.parametrize("closure", [None, lambda: torch.zeros(())], ids=["no closure", "a closure"])
def test_what_the_step_itself_writes_is_the_optimizers(closure):
    """With and without a closure."""
    layer = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer.weight.grad = torch.ones(3, 3)

    def step():
        loss = layer(torch.ones(1, 3).requires_grad_()).sum()
        optimizer.step(closure)
        loss.backward()

    (finding,) = unclobber.audit(step).findings
    assert finding.writes[0].optimizer == "optimizer.step(closure)"


def test_the_code_of_a_callable():
    """The innermost Python function, if there is one."""
    assert frames.code_of(test_the_code_of_a_callable) is test_the_code_of_a_callable.__code__
    assert frames.code_of(Closure(None)) is Closure.__call__.__code__
    assert frames.code_of(Closure(None).method) is Closure.method.__code__
    assert frames.code_of(functools.partial(Closure(None))) is Closure.__call__.__code__
    assert frames.code_of(len) is None
