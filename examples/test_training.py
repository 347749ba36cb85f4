"""Run with `pytest --unclobber`: the first test fails with the story, the second one runs guarded."""

import pytest
import torch


def test_step():
    gate = torch.ones(3, requires_grad=True).sigmoid()
    gate[0] = 0.5
    gate.sum().backward()


@pytest.mark.unclobber("guard")
def test_step_guarded():
    test_step()
