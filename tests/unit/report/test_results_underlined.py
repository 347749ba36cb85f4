"""What is underlined where a name means another tensor before its own line has run."""

import runpy

import pytest

import unclobber
from unclobber.report import to_text

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
