"""What saves memory, as edits of the source: proposed from the recording, proved by running the script."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import textwrap

import pytest

import unclobber
from unclobber.cli import main
from unclobber.model import SpanEdit
from unclobber.repair.given import edited
from unclobber.repair.project import Project

_numbers = itertools.count()

HEAD = """
import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x):
BODY
        return x + self.down(gate)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def step():
    Net()(torch.randn(32, 16)).square().mean().backward()

"""
ONE = "        h = self.up(x)\n        gate = h * torch.sigmoid(h)"
TWO = "        h = self.up(x)\n        s = 1 / (1 + torch.exp(-h))\n        gate = h * s"
READ_TWICE = f"{TWO}\n        self.last = s.shape"
NESTED = "        gate = self.up(x) * torch.sigmoid(self.up(x))"


@pytest.fixture
def script(tmp_path):
    def write(body, ending=""):
        path = tmp_path / "train.py"
        path.write_text(HEAD.replace("BODY", body) + ending)
        return path

    return write


def changes(path):
    spec = importlib.util.spec_from_file_location(f"train_{next(_numbers)}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        return unclobber.memory(module.step).changes
    finally:
        del sys.modules[spec.name]


def applied(path, edits):
    return edited(Project(str(path.parent)), edits)[str(path)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(ONE, "h = self.up(x)\ngate = torch.nn.functional.silu(h)", id="one expression"),
        pytest.param(TWO, "h = self.up(x)\ngate = torch.nn.functional.silu(h)", id="a statement goes"),
        pytest.param(
            READ_TWICE,
            "s = 1 / (1 + torch.exp(-h))\ngate = torch.nn.functional.silu(h)\nself.last = s.shape",
            id="a statement stays that others read",
        ),
    ],
)
def test_a_formula(body, expected, script):
    """The expression gives way to the call; statements that were only for it go, too."""
    path = script(body)
    (one,) = [change for change in changes(path) if change.sort == "formula"]
    texts = [applied(path, way) for way in one.edits]
    assert any(textwrap.indent(expected, " " * 8) in text for text in texts)
    assert all("return x + self.down(gate)" in text for text in texts)


def test_two_calls_are_two_values(script):
    """A module that is called twice is no formula of one input."""
    assert not [change for change in changes(script(NESTED)) if change.sort == "formula"]


def test_a_checkpoint(script):
    """The call of each block, and of nothing else."""
    path = script(ONE)
    blocks = [change for change in changes(path) if change.title.startswith("checkpoint blocks.*")]
    (way,) = blocks[0].edits
    assert "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)" in applied(path, way)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("h * (torch.rand_like(h) < 0.8).float()", "h * (torch.rand_like(h) < 0.8)"),
        ("h * keep.to(h.dtype)", "h * keep"),
    ],
)
def test_a_mask_of_numbers(body, expected, script):
    """The conversion goes: torch multiplies by bools as they are."""
    path = script(f"        h = self.up(x).tanh()\n        keep = h > 0\n        gate = {body}")
    (one,) = [change for change in changes(path) if change.sort == "mask"]
    (way,) = one.edits
    assert f"gate = {expected}\n" in applied(path, way)


def test_a_row_of_modules(script):
    """All of an ``nn.Sequential``, cut evenly."""
    path = script(ONE)
    text = (
        path.read_text().replace("nn.ModuleList(Block()", "nn.Sequential(*(Block()").replace("(4))", "(4)))")
    )
    loop = "        for block in self.blocks:\n            x = block(x)\n        return x\n"
    assert loop in text
    path.write_text(text.replace(loop, "        return self.blocks(x)\n"))
    ways = [way for change in changes(path) if "pieces" in change.title for way in change.edits]
    call = "torch.utils.checkpoint.checkpoint_sequential(self.blocks, 4, x, use_reentrant=False)"
    assert any(f"return {call}\n" in applied(path, way) for way in ways)


def test_edits_may_not_overlap(tmp_path):
    """Two changes of one expression can't both be made."""
    path = tmp_path / "a.py"
    path.write_text("value = 1 + 2\n")
    project = Project(str(tmp_path))
    sum_, name, number = (
        SpanEdit(str(path), 1, *place) for place in ((9, 1, 14, "3"), (1, 1, 6, "x"), (9, 1, 10, "2"))
    )
    assert edited(project, [sum_, name]) == {str(path): "x = 3\n"}
    assert edited(project, [sum_, number]) is None
    assert edited(project, [SpanEdit("/no/such/file.py", 1, 1, 1, 1, "x")]) is None


def test_an_edit_below_a_form_feed(tmp_path):
    """It ends no line for Python."""
    path = tmp_path / "a.py"
    path.write_text("\f\nvalue = 1 + 2\n")
    edit = SpanEdit(str(path), 2, 1, 2, 6, "x")
    assert edited(Project(str(tmp_path)), [edit]) == {str(path): "\f\nx = 1 + 2\n"}


def test_the_command_writes_what_is_proved(script, capsys, monkeypatch):
    """The script is rewritten; what it then needs is what was measured."""
    path = script(TWO, "step()\n")
    monkeypatch.chdir(path.parent)
    assert main(["memory", "--apply", "--checkpoint", "--write", "train.py"]) == 0
    out = capsys.readouterr().out
    assert "+        gate = torch.nn.functional.silu(h)" in out
    assert "proved: silu is written out as" in out
    assert "written: train.py" in out
    text = path.read_text()
    assert "torch.exp" not in text
    assert "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)" in text
    assert not [change for change in changes(path) if change.sort == "formula"]


def test_a_folder_s_program_is_edited(script, capsys, monkeypatch):
    """The file that a folder is run by is the script that proofs run."""
    path = script(TWO, "step()\n")
    (path.parent / "tool").mkdir()
    path.rename(path.parent / "tool" / "__main__.py")
    monkeypatch.chdir(path.parent)
    assert main(["memory", "--apply", "--write", "tool"]) == 0
    assert "proved: silu is written out as" in capsys.readouterr().out
    assert "torch.exp" not in (path.parent / "tool" / "__main__.py").read_text()


def test_the_command_says_how_to_write(script, capsys, monkeypatch):
    """The whole command, with script and arguments, that can be pasted."""
    path = script(TWO, "import sys\nassert sys.argv[1:] == ['two words', '--size=3']\nstep()\n")
    monkeypatch.chdir(path.parent)
    assert main(["memory", "--apply", "train.py", "two words", "--size=3"]) == 0
    out = capsys.readouterr().out
    assert "`unclobber memory --write --apply train.py 'two words' --size=3` writes it" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--write", "x.py"], "go with --apply"),
        (["--apply", "-m", "x"], "--apply edits a script"),
        (["--apply", "--fake", "x.py"], "fake tensors have none"),
    ],
)
def test_wrong_use_of_apply(arguments, words, capsys):
    """Exit 2 before anything runs."""
    assert main(["memory", *arguments]) == 2
    assert words in capsys.readouterr().err
