"""Optimizers that step between a loss and its backward: all of them found, no right loop flagged."""

from __future__ import annotations

import pytest
import torch
from training_loops import LOOPS, early, late, line_of_step

from unclobber.static import check_text


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
    """Its step changes the parameters that it was given, like torch's: RAdam, SGLD and others in public code."""
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
