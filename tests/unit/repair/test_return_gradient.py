"""A hook that wrote to its gradient and returned nothing returns a new one."""

from __future__ import annotations

import pytest

from unclobber.repair.fixers import FIXERS

return_gradient = FIXERS["return-gradient"]


@pytest.mark.parametrize(
    ("write", "body", "after"),
    [
        ("g.mul_(2)", ("g.mul_(2)",), ("return g.mul(2)",)),
        ("g *= 2", ("g *= 2",), ("return g * 2",)),
        ("g.zero_()", ("g.zero_()",), ("return torch.zeros_like(g)",)),
        ("g.data.mul_(2)", ("g.data.mul_(2)",), ("return g.data.mul(2)",)),
        ("g[0].mul_(2)", ("g[0].mul_(2)",), ("return (g[0].mul(2), *g[1:])",)),
        ("g *= 2", ("if c:", "    g *= 2"), ("if c:", "    g = g * 2", "return g")),
        ("g *= 2", ("g *= 2", "g += 1"), ("g = g * 2", "g += 1", "return g")),
        ("g[1].mul_(2)", ("g[1].mul_(2)",), None),  # of which there may be one more or less
        ("other.mul_(2)", ("other.mul_(2)",), None),  # no gradient that it was given
        ("g.mul_(2)", ("return g.mul_(2)",), None),  # `out-of-place` does this one
        ("g *= 2", ("if c:", "    return", "g *= 2"), None),
    ],
)
def test_before_and_after(proposed, write, body, after):
    """Each way to write to it, and what says nothing of what to return."""
    text, *_ = texts = [
        "import torch\n\ndef hook(g):\n" + "".join(f"    {line}\n" for line in lines)
        for lines in (body, after or ())
    ]
    assert proposed(return_gradient, "UC104", text, write=write) == (texts[1:] if after else [])


FORWARD_HOOK = """\
def hook(module, inputs, output):
    output.mul_(2)


{registered}
"""


@pytest.mark.parametrize(
    ("method", "count"), [("register_forward_hook", 1), ("register_forward_pre_hook", 0)]
)
def test_a_hook_of_a_module_returns_its_new_result(proposed, method, count):
    """Of other functions it isn't known what becomes of what they return."""
    text = FORWARD_HOOK.format(registered=f"net.{method}(hook)")
    after = text.replace("output.mul_(2)", "return output.mul(2)")
    assert proposed(return_gradient, "UC101", text, write="output.mul_(2)") == [after] * count


@pytest.mark.parametrize(("returned", "count"), [("hook", 1), ("lambda *_: None", 0)])
def test_a_hook_that_a_function_makes(proposed, returned, count):
    """`register_forward_hook(make(0.5))`, where `make` returns the hook."""
    text = (
        "def make(keep):\n"
        "    def hook(module, inputs, output):\n"
        "        output.mul_(keep)\n"
        f"    return {returned}\n\n"
        "net.register_forward_hook(make(0.5))\n"
    )
    after = text.replace("output.mul_(keep)", "return output.mul(keep)")
    assert proposed(return_gradient, "UC101", text, write="output.mul_(keep)") == [after] * count


@pytest.mark.parametrize("write", ["output[:, 1] = 0.0", "output[:2].mul_(2)"])
def test_a_hook_that_writes_parts_of_a_result(proposed, write):
    """An ablation of heads: it writes to a copy of what it is given, and returns that."""
    text = FORWARD_HOOK.format(registered="net.register_forward_hook(hook)").replace("output.mul_(2)", write)
    after = text.replace(f"    {write}", f"    output = output.clone()\n    {write}\n    return output")
    assert proposed(return_gradient, "UC101", text, write=write) == [after]
    of_gradients = text.replace("forward_hook", "hook")
    assert proposed(return_gradient, "UC104", of_gradients, write=write) == []
