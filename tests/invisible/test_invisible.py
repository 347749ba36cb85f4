"""A program that is watched, guarded or audited is the same program."""

from __future__ import annotations

import pytest
from observed import MODES
from runs import CORES, PROGRAMS, Run, difference, observed, plain, run

from torch_words import TORCH
from unclobber.observe.native import core as cores
from unclobber.torch_internals.compat import behaviour

ON_OLDER = {
    "outer_hooks": behaviour.shows_top_hooks,
    "registered_hooks": behaviour.shows_packed,
    "saved_tensors": behaviour.shows_packed,
    "tracebacks": behaviour.shows_packed,
}
"""Programs that can notice a context on an older torch (docs/limits.md): whether this one is new enough."""


def is_limited(program, core):
    """Return whether the program can notice a context on this torch."""
    if program == "dispatch_modes":
        # Where no native core was built, as for `make compat`, there is one core.
        is_python = core == "python" or cores.loaded().module is None
        return is_python and not behaviour.shows_packed
    newest = {"saved_tensors": (2, 12), "tracebacks": (2, 13)}.get(program)
    if newest is not None and behaviour.shows_packed and newest > TORCH:
        # The native core gives back a result itself, where torch makes another tensor of it; only the
        # Python core's kernels show in a traceback.
        return (core == "native" and cores.loaded().module is not None) == (program == "saved_tensors")
    return not ON_OLDER.get(program, True)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", [program.stem for program in PROGRAMS])
def test_a_program_prints_the_same_lines_as_plain(program, mode, core):
    found = difference(program, plain()[program], observed(mode, core)[program])
    assert (found is not None) == is_limited(program, core), found


def test_a_program_that_tells_that_it_is_observed_differs(tmp_path):
    telling = tmp_path / "telling.py"
    telling.write_text(
        "import sys\nfrom observed import observed\nprint(observed(lambda: 'unclobber' in sys.modules))"
    )
    first, second = (run(mode, "python", [telling])["telling"] for mode in ("plain", "watch"))
    assert difference("telling", first, second) == "telling: 'False' is 'True'"


FIRST_INSIDE_A_MODE = """\
import torch
from observed import observed
from torch.utils._python_dispatch import TorchDispatchMode
class Log(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        print(function)
        return function(*args, **(kwargs or {}))
x = torch.ones(2, requires_grad=True)
with Log():
    observed(lambda: (x * 2).exp())
"""


@pytest.mark.parametrize("core", CORES)
def test_a_mode_sees_none_of_the_self_tests_of_the_first_context(tmp_path, core):
    program = tmp_path / "first.py"
    program.write_text(FIRST_INSIDE_A_MODE)
    expected = ["aten.mul.Tensor", "aten.exp.default", "aten.detach.default"]
    expected += ["aten.detach.default"] * is_limited("dispatch_modes", core)
    assert run("watch", core, [program])["first"] == Run(expected, [])


TRACED = """\
import torch
from observed import observed
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.linear = nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.Linear(8, 3)
    def forward(self, x):
        h = torch.relu_(self.norm(self.conv(x)))
        return self.linear(torch.einsum("bchw,c->bchw", h, torch.arange(2.0)).flatten(1)).exp()
def step():
    traced = torch.jit.trace(Net().eval(), torch.rand(2, 1, 3, 3))
    print(traced.graph)
    traced(torch.ones(2, 1, 3, 3)).sum().backward()
observed(step)
"""


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("mode", ["watch", "guard"])
def test_a_trace_has_the_same_values_under_the_same_names(tmp_path, mode, core):
    """``torch.jit.trace`` names a value by the frame that uses it first, and compares two traces by names."""
    program = tmp_path / "traced.py"
    program.write_text(TRACED)
    first, second = (run(each, core, [program])["traced"] for each in ("plain", mode))
    assert first == second
    assert len(first.lines) > 20


def test_a_finding_in_a_program_is_a_difference(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import torch\nfrom observed import observed\n"
        "x = torch.ones(2, requires_grad=True)\n"
        "def step():\n    y = x.exp()\n    y.mul_(2)\n    y.sum().backward()\n"
        "observed(step)\n"
    )  # fmt: skip
    got = run("audit", "python", [wrong])["wrong"]
    assert difference("wrong", Run(got.lines, []), got) == "wrong: found ['UC101']"


def test_a_line_too_few_is_a_difference():
    assert difference("short", Run(["a", "b"], []), Run(["a"], [])) == "short: 1 lines instead of 2"
