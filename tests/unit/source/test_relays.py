"""A program's own ``__torch_function__`` stands between its lines and every operation."""

from __future__ import annotations

import os

import pytest
import torch

import unclobber

SUBCLASS = """
import torch

class Named(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})

x = torch.ones(3, requires_grad=True).as_subclass(Named)
"""

MODE = """
import torch
from torch.overrides import TorchFunctionMode

class Logged(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.last = func
        return func(*args, **(kwargs or {}))

mode = Logged()
mode.__enter__()
x = torch.ones(3, requires_grad=True)
"""

WRITING_MODE = """
import torch
from torch.overrides import TorchFunctionMode

class Doubling(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.Tensor.exp:
            result.mul_(2)
        return result

mode = Doubling()
mode.__enter__()
x = torch.ones(3, requires_grad=True)
"""

BODY = """
y = x.exp()
y += 1
y.sum().backward()
"""


@pytest.fixture
def finding(tmp_path):
    """What is found in a program."""

    def finding(text):
        path = tmp_path / "program.py"
        path.write_text(text)
        os.utime(path, (1, 1))  # older than this process: its text is what runs
        names = {"__name__": "program"}
        try:
            with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
                exec(compile(text, str(path), "exec"), names)
        finally:
            if "mode" in names:
                names["mode"].__exit__(None, None, None)
        return caught.value.finding

    return finding


@pytest.mark.parametrize("program", [SUBCLASS, MODE], ids=["subclass", "mode"])
def test_the_lines_that_called_the_operations(finding, program):
    found = finding(program + BODY)
    assert found.saved.site.statement == "y = x.exp()"
    assert (found.saved.expression, found.saved.gradient_of) == ("y", "x")
    assert [write.site.statement for write in found.writes] == ["y += 1"]
    assert found.needed.site.statement == "y.sum().backward()"


def test_a_mode_that_writes_itself(finding):
    """The save is the line's, the write is the mode's own."""
    found = finding(WRITING_MODE + BODY.replace("y += 1\n", ""))
    assert found.saved.site.statement == "y = x.exp()"
    assert [write.site.statement for write in found.writes] == ["result.mul_(2)"]


def test_nothing_but_a_relay():
    """It is told where there is no other line."""
    from unclobber.source.sites import innermost_user

    code = torch.Tensor.__torch_function__.__func__.__code__
    own = compile("def __torch_function__(self, func):\n    func()", "<user>", "exec").co_consts[0]
    assert innermost_user((own, 0, code, 0)) == 0
    assert innermost_user((code, 0)) is None
