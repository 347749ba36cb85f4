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
