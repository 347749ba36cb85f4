"""Optimizers that step between a loss and its backward: all of them found, no right loop flagged."""

from __future__ import annotations

import pytest
import torch
from training_loops import LOOPS, early, late, line_of_step

from checked_text import check_text


@pytest.mark.parametrize("name", LOOPS)
def test_a_step_that_is_too_early_is_found(name):
    """torch refuses the loop, and the line of the step is named."""
    text = early(name)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        exec(compile(text, name, "exec"), {"__name__": "__main__"})
    found = check_text(text, "loop.py")
    assert [(one.code, one.writes[0].site.line) for one in found] == [("UC101", line_of_step(name))]


@pytest.mark.parametrize("name", LOOPS)
def test_the_loop_as_it_should_be_is_not_flagged(name):
    torch.manual_seed(0)
    text = late(name)
    exec(compile(text, name, "exec"), {"__name__": "__main__"})
    assert check_text(text, "loop.py", all_rules=True) == []


@pytest.mark.parametrize(("base", "change", "told", "asked"), [
    ("torch.optim.Optimizer", "p.add_(p.grad)", ["UC101"], ["UC101"]),
    ("torch.optim.Optimizer", "p.data.add_(p.grad.data)", [], ["UC102"]),
    ("object", "p.add_(p.grad)", [], []),
])  # fmt: skip
def test_an_optimizer_of_the_files_own(base, change, told, asked):
    """Its step changes the parameters that it was given, like torch's: RAdam and others in public code."""
    text = f"""
import torch
class Mine({base}):
    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                {change}
net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
opt, x = Mine(net.parameters()), torch.ones(2, 3)
a, b = net(x).sum(), net(x).pow(2).sum()
a.backward()
opt.step()
b.backward()
"""
    assert [finding.code for finding in check_text(text, "a.py")] == told
    assert [finding.code for finding in check_text(text, "a.py", all_rules=True)] == asked


ADAPTED = """
from copy import deepcopy
import torch
def fit(model, loader, criterion):
    opt, total = torch.optim.SGD(model.parameters(), 0.1), 0.0
    for x, y in loader:
        {made}
        opt = torch.optim.SGD(learner.parameters(), 0.1)
        criterion(learner(x), y).backward()
        opt.step()
        total += criterion(learner(x), y)
    total.backward()
"""


@pytest.mark.parametrize(
    ("made", "expected"), [("learner = deepcopy(model)", []), ("learner = model", ["UC101"])]
)
def test_a_network_that_each_turn_copies(made, expected):
    """The step of one turn leaves the copies of the turns before as they were: MAML, federated learning."""
    assert [finding.code for finding in check_text(ADAPTED.format(made=made), "a.py")] == expected


AGENTS = """
import torch
from torch import nn
class Agents:
    def __init__(self, n):
        self.critics = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)) for _ in range(n)])
        self.opts = [torch.optim.Adam(c.parameters()) for c in self.critics]
    def update(self, x):
        values = [c(x) for c in self.critics]
        for i in range(len(self.critics)):
            values[i].mean().backward(retain_graph=True)
            self.opts[{item}].step()
"""


@pytest.mark.parametrize(("item", "expected"), [("i", []), ("0", ["UC101"])])
def test_each_optimizer_of_a_list_has_a_network_of_its_own(item, expected):
    """Which of them steps isn't known of an index: independent agents are right so."""
    assert [finding.code for finding in check_text(AGENTS.format(item=item), "a.py")] == expected


EITHER = """
import torch
class Learner:
    def __init__(self, nets, apart):
        self.nets = nets
        if apart:
            self.opt = [torch.optim.Adam(self.nets[i].parameters()) for i in range(len(self.nets))]
        else:
            self.opt = torch.optim.Adam(self.nets.parameters())
    def update(self, x):
        policy, value = self.nets[0](x), self.nets[1](x)
        self.opt{item}.zero_grad()
        value.mean().backward()
        self.opt{item}.step()
        policy.mean().backward()
"""


@pytest.mark.parametrize(("item", "expected"), [("[1]", []), ("", ["UC101"])])
def test_an_item_of_what_may_be_one_optimizer(item, expected):
    """It is one of several then: ``ppo.py`` of imitation-learning-pcg."""
    assert [finding.code for finding in check_text(EITHER.format(item=item), "a.py")] == expected
