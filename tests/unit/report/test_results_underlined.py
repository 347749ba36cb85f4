"""What is underlined where a line says one name twice, or of a tensor that it does not have yet."""

import runpy

import pytest

import unclobber
from unclobber.report._text import to_text

PROGRAM = """\
import torch
h = torch.ones(3, requires_grad=True)
h = (h + 1).exp()
h.mul_(2)
h.sum().backward()
"""


def test_a_result_is_not_the_input_of_the_same_name(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        runpy.run_path(str(path))
    assert caught.value.finding.saved.expression == "h"
    lines = to_text(caught.value.finding).splitlines()
    below = lines[next(i for i, line in enumerate(lines) if line.startswith("3 |")) + 1]
    assert below.split()[1] == "-" * len("(h + 1).exp()")


TWICE = """\
import torch
d = torch.ones(2, 2, requires_grad=True) * 2
x = 1; y = d @ (d + 1)
d.mul_(2)
y.sum().backward()
"""


def test_the_operand_that_was_saved_is_the_one_that_is_underlined(tmp_path):
    """``d`` stands there twice; the first of them is kept."""
    path = tmp_path / "program.py"
    path.write_text(TWICE)
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        runpy.run_path(str(path))
    saved = caught.value.finding.saved
    assert (saved.expression, saved.extent) == ("d", (3, 12, 3, 13))
    lines = to_text(caught.value.finding).splitlines()
    below = lines[next(i for i, line in enumerate(lines) if line.startswith("3 |")) + 1]
    assert below.startswith("  |            - ")
    assert saved.site.statement_column == 8
