"""The advice of each rule, done as it says: the program then runs, with the gradients that were meant.

One program a rule, beside what each way of its advice does to it; all run in this process.
"""

# ruff: noqa: E501  (a program, or an edit, is read in one line)

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

import unclobber
from checked_text import check_text
from programs.helps import IN_PLACE, NET, VIEW, Helped, W
from programs.test_helps import SAYS, as_meant, differing, run
from unclobber.cli import main
from unclobber.model import Finding
from unclobber.static._rules import CheckRule


@dataclass(frozen=True)
class Advised:
    """A program in which a rule finds something, and an edit for each way of its advice."""

    rule: CheckRule
    text: str
    edits: tuple[str, ...]
    meant: str = ""
    """The edit that gives the program as it is meant; empty for the program itself, under guard."""
    carried: bool = False
    """Whether a graph goes on: into the next turn of a loop, or into what is written."""

    @property
    def advice(self) -> str:
        return self.rule.value.if_carried if self.carried else self.rule.value.advice

    @property
    def program(self) -> Helped:
        return Helped(self.rule.name, self.text, {}, meant=self.meant)


X = "x = torch.linspace(0, 1, 8).view(2, 4)\n"
H = W + "h = w * 1\n"
EMBEDDINGS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(5, 4)
        self.words.weight.requires_grad_(False)
    def enable_input_require_grads(self):
        self.words.register_forward_hook(lambda module, args, output: output.requires_grad_(True))
    def forward(self, ids, picture):
        inputs_embeds = self.words(ids)
        inputs_embeds[:, 0] = picture
        return inputs_embeds.square().sum()
net = Net()
net.enable_input_require_grads()
picture = torch.ones(4, requires_grad=True)
net(torch.tensor([[1, 2, 3]]), picture).backward()
"""
UNREAD = """\
class Net(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.fc, self.block = nn.Linear(4, 4), block
    def forward(self, x):
        h = self.fc(x)
        y = self.block(h)
        h += y
        return h
net = Net(eval("nn.Linear(4, 4)"))
net(torch.linspace(0, 1, 8).view(2, 4)).square().sum().backward()
"""
DIRTY = """\
class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        return 3 * grad
"""
SAVED_BY_FUNCTION = """\
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        x.mul_(2)
        return grad * x
"""
ON_CTX = """\
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x.square()
    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.x
"""
DOUBLED = """\
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        grad.mul_(2)
        return grad
"""
BY_GRAD = "with torch.no_grad():\n    "

ADVISED = [
    Advised(CheckRule.SAVED, W + "gate = w.sigmoid()\ngate *= 2\ngate.sum().backward()\n",
            ("gate *= 2 => gate = gate * 2",)),
    Advised(CheckRule.SAVED, H + "y = h ** 2\nh.mul_(3)\ny.sum().backward()\n",
            ("h.mul_(3) => h = h.mul(3)",)),
    Advised(CheckRule.DATA, NET + X + "score = net(x)\nfor p in net.parameters():\n    p.data.mul_(0.9)\nscore.sum().backward()\n",
            ("for p in net.parameters():\n    p.data.mul_(0.9)\nscore.sum().backward() => score.sum().backward()\n"
             "for p in net.parameters():\n    p.data.mul_(0.9)",)),
    Advised(CheckRule.DATA, W + "y = w.exp()\ny.data.mul_(2)\ny.sum().backward()\n",
            ("y.data.mul_(2)\ny.sum().backward() => y.sum().backward()\ny.data.mul_(2)",
             "y.data => z = y.clone()\nz.data")),
    Advised(CheckRule.MODULE, "net = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.ReLU(inplace=True))\n" + X
            + "net(x).sum().backward()\n", ("inplace=True => ",)),
    Advised(CheckRule.STEP, NET + X + "a = net(x).sum()\nb = net(x).square().sum()\na.backward()\nopt.step()\nb.backward()\n",
            ("opt.step()\nb.backward() => b.backward()\nopt.step()",)),
    Advised(CheckRule.STEP, NET + X + "make = nn.Linear(4, 4)\nfake = make(x)\na = net(fake.detach()).sum()\nb = net(fake).sum()\n"
            "a.backward()\nopt.step()\nb.backward()\n",
            ("opt.step()\nb.backward() => b.backward(inputs=list(make.parameters()))\nopt.step()",)),
    Advised(CheckRule.STEP, NET + X + "state = x\nfor _ in range(2):\n    state = net(state).sum() + x\n    opt.zero_grad()\n"
            + "    state.square().sum().backward(retain_graph=True)\n    opt.step()\n",
            ("net(state) => net(state.detach())",), meant="net(state) => net(state.detach())", carried=True),
    Advised(CheckRule.LOADED, NET + X + "old = {k: v.clone() for k, v in net.state_dict().items()}\nloss = net(x).square().sum()\n"
            + "net.load_state_dict(old)\nloss.backward()\n",
            ("net.load_state_dict(old)\nloss.backward() => loss.backward()\nnet.load_state_dict(old)",)),
    Advised(CheckRule.RETAINED, NET + X + "y = eval('net(x)')\na, b = y.sum(), y.square().sum()\n"
            + "a.backward(retain_graph=True)\nopt.step()\nb.backward()\n", ("opt.step()\nb.backward() => b.backward()\nopt.step()",)),
    Advised(CheckRule.UNSEEN, UNREAD, ("h += y => h = h + y",)),
    Advised(CheckRule.UNSEEN, "net = nn.Sequential(nn.Linear(4, 4), eval('nn.Sigmoid()'), nn.Dropout(1.0, inplace=True))\n" + X
            + "net(x).sum().backward()\n", (", inplace=True => ",)),
    Advised(CheckRule.UNSEEN, "class Scaled(nn.Module):\n    def forward(self, x):\n        x *= 2\n        return x\n"
            + W + "eval('Scaled()')(w.exp()).sum().backward()\n", ("x *= 2 => x = x * 2",)),
    Advised(CheckRule.OVERLAP, H + "h[1:] += h[:-1]\n(h * h).sum().backward()\n",
            ("h[:-1] => h[:-1].clone()",), meant="h[:-1] => h[:-1] * 1"),
    Advised(CheckRule.OVERLAP, "x = torch.tensor([True, False, True])\nx[x] *= torch.tensor([True, False])\n" + W
            + "(w[:3] * x).sum().backward()\n", ("x[x] *= => x[x.clone()] *=",),
            meant="x[x] *= torch.tensor([True, False]) => x = x & torch.tensor([True, True, False])"),
    Advised(CheckRule.TWICE, W + "h = w.exp()\nh.sin().sum().backward()\nh.cos().sum().backward()\n",
            ("h.cos() => h = w.exp()\nh.cos()",
             "h.sin().sum().backward()\nh.cos().sum().backward() => (h.sin() + h.cos()).sum().backward()")),
    Advised(CheckRule.TWICE, W + "h = torch.zeros(4)\nfor x in torch.eye(4)[:2]:\n    h = (h + w * x).tanh()\n    h.sum().backward()\n",
            ("h.sum().backward() => h.sum().backward()\n    h = h.detach()",),
            meant="h.sum().backward() => h.sum().backward()\n    h = h.clone().detach()"),
    Advised(CheckRule.LEAF, W + "w.mul_(2)\n(w * w).sum().backward()\n",
            (f"w.mul_(2) => {BY_GRAD}w.mul_(2)", ".requires_grad_()\nw.mul_(2) => \nw.mul_(2)\nw.requires_grad_()")),
    Advised(CheckRule.LEAF, W + "total = torch.zeros(4, requires_grad=True)\ntotal += w * w\ntotal.sum().backward()\n",
            ("total += w * w => total = total + w * w", "4, requires_grad=True => 4"), meant="4, requires_grad=True => 4",
            carried=True),
    Advised(CheckRule.EMBEDDED, EMBEDDINGS,
            ("inputs_embeds[:, 0] => inputs_embeds = inputs_embeds.clone()\n        inputs_embeds[:, 0]",),
            meant="self.words(ids) => self.words(ids) * 1"),
    Advised(CheckRule.LEAF_VIEW, W + "v = w[:2]\nv.mul_(2)\n(v * v).sum().backward()\n",
            (f"v.mul_(2) => {BY_GRAD}v.mul_(2)", "w[:2] => w.clone()[:2]")),
    Advised(CheckRule.LEAF_VIEW, W + "v = w.expand(3, 4)\nv.mul_(2)\n(v * v).sum().backward()\n",
            ("v.mul_(2) => v = v.clone()\nv.mul_(2)",), carried=True, meant="v.mul_(2) => v = v * 2"),
    Advised(CheckRule.SEVERAL, H + "a, b = h.chunk(2)\na.mul_(2)\n(a * b).sum().backward()\n",
            ("a.mul_(2) => a = a.mul(2)", "h.chunk(2) => h.narrow(0, 0, 2), h.narrow(0, 2, 2)", "h.chunk(2) => h[:2], h[2:]"),
            meant="a.mul_(2) => a = a * 2"),
    Advised(CheckRule.NO_GRAD_VIEW, H + "with torch.no_grad():\n    v = h[:2]\nv.mul_(2)\n(h * h).sum().backward()\n",
            ("with torch.no_grad():\n    v = h[:2] => v = h[:2]", "v.mul_(2) => v = v.mul(2)")),
    Advised(CheckRule.FUNCTION_VIEW, VIEW + H + "v = View.apply(h)\nv.mul_(2)\nv.sum().backward()\n",
            ("return x.view_as(x) => return x.view_as(x).clone()", "v.mul_(2) => v = v.mul(2)"),
            meant="v.mul_(2) => v = v * 2"),
    Advised(CheckRule.INFERENCE, W + "with torch.inference_mode():\n    h = torch.ones(4)\nh.mul_(2)\n(w * h).sum().backward()\n",
            ("h.mul_(2) => h = h.clone()\nh.mul_(2)", "inference_mode => no_grad"),
            meant="inference_mode() => enable_grad()"),
    Advised(CheckRule.EXPANDED, H + "e = h.expand(3, 4)\ne.mul_(2)\n(e * e).sum().backward()\n",
            ("e.mul_(2) => e = e.clone()\ne.mul_(2)",), meant="e.mul_(2) => e = e * 2"),
    Advised(CheckRule.UNMARKED, IN_PLACE.replace("RETURNED", "x") + H + "Triple.apply(h).sum().backward()\n",
            ("return x => ctx.mark_dirty(x)\n        return x", "x.mul_(3) => x = x.clone()\n        x.mul_(3)"),
            meant="x.mul_(3) => x = x * 3"),
    Advised(CheckRule.DIRTY, DIRTY + H + "Triple.apply(h).sum().backward()\n",
            ("return x.clone() => return x",), meant="ctx.mark_dirty(x) =>  ;; x.mul_(3) => x = x * 3"),
    Advised(CheckRule.CTX, ON_CTX + W + "Square.apply(w).sum().backward()\n",
            ("ctx.x = x => ctx.save_for_backward(x) ;; grad * ctx.x => grad * ctx.saved_tensors[0]",)),
    Advised(CheckRule.BACKWARD_SAVED, SAVED_BY_FUNCTION + W + "y = Square.apply(w * 1).sum()\ny.backward(retain_graph=True)\ny.backward()\n",
            ("x.mul_(2) => x = x.mul(2)",), meant="x.mul_(2) => x = x * 2"),
    Advised(CheckRule.GRADIENT, DOUBLED + H + "(Double.apply(h) + h).backward(torch.ones(4))\n",
            ("grad.mul_(2)\n        return grad => return grad.mul(2)",), meant="grad.mul_(2) => grad = grad * 2"),
    Advised(CheckRule.SELF_OVERLAP, W + "h = w.view(2, 2) * 1\nh -= h[:, :1]\n(h * h).sum().backward()\n",
            ("h[:, :1] => h[:, :1].clone()",), meant="h[:, :1] => h[:, :1] * 1"),
    Advised(CheckRule.OPERAND, H + "y = h + h.mul_(2)\ny.square().sum().backward()\n",
            ("h.mul_(2) => h.mul(2)",), meant="h.mul_(2) => h * 2"),
]  # fmt: skip


def found_by(advised: Advised, text: str) -> Finding:
    """What the rule finds in a program."""
    found = check_text(text, "program.py", all_rules=True)
    return next(finding for finding in found if finding.fixes[0].title == advised.advice)


@pytest.mark.parametrize("advised", ADVISED, ids=lambda advised: advised.rule.name)
def test_advice_cures(advised, tmp_path):
    """Of a program that the rule finds; gradients are those that were meant, or the advice says otherwise."""
    path, program, advice = str(tmp_path / "program.py"), advised.program, advised.advice
    expected = as_meant(program, path, found_by(advised, program.twin("")))
    assert expected
    for edit in advised.edits:
        Path(path).write_text(program.twin(edit))
        found, again = run(program.twin(edit), path, unclobber.watch())
        assert again == [], edit
        assert found, edit
        assert SAYS.search(advice) or differing(found, expected) == [], edit


def test_every_rule_is_executed():
    """A rule without a program, or an edit, fails here."""
    said = {text for rule in CheckRule for text in (rule.value.advice, rule.value.if_carried) if text}
    assert {advised.advice for advised in ADVISED if advised.edits} == said
    assert {advised.rule for advised in ADVISED if advised.edits} == set(CheckRule)


SIMULATED = """
import torch
from torch import nn
class State:
    def __init__(self, vel):
        self.vel = vel
class System(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
    def forces(self, state):
        return self.w * state.vel{more}
    def forward(self, state):
        for _ in range(3):
            state.vel += self.forces(state)
        return state.vel.square().sum()
System()(State(torch.ones(3))).backward()
"""


@pytest.mark.parametrize(("more", "count"), [("", 2), (" * state.vel.norm()", 0)])
def test_check_shows_an_edit_only_if_the_rules_suspect_less_with_it(more, count, tmp_path, capsys):
    """A clone of one factor would leave what the norm keeps to be overwritten."""
    path = tmp_path / "net.py"
    path.write_text(SIMULATED.format(more=more))
    assert main(["check", str(path), "--no-cache", "--format", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert len([fix for fix in found["fixes"] if fix["diff"]]) == count
