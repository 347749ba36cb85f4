"""Short training scripts with something to fix, made from parts: who holds the tensor, how it is written,
what is used afterwards.

Each prints what it has computed and writes it to a file beside itself, so that a fixer that changes anything
can be told by running the cured script plainly. What it should print is told by the script as it is under
``guard``; where torch refuses the write itself, so that there is nothing to run, by a twin made from the same
parts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import indent


@dataclass(frozen=True)
class Script:
    """One script."""

    family: str
    """The code of what ``fix`` is to find first."""
    parts: str
    """What it was made from: ``tanh, held by a list, h *= 2``."""
    text: str
    twin: str | None = None
    """A script that does what this one means; None where ``guard`` tells."""

    @property
    def name(self) -> str:
        return f"{self.family}: {self.parts}"


@dataclass(frozen=True)
class Holder:
    """Somebody else who has the tensor ``h`` while it is written."""

    hold: str = ""
    tell: str = "h.sum().item()"
    """An expression, after the step, that shows what it holds."""
    setup: str = ""
    top: str = ""
    chained: str = ""
    """A further target of the assignment that makes ``h``."""


HOLDERS = {
    "nobody": Holder(),
    "another name": Holder("kept = h", "kept.sum().item()"),
    "a list": Holder("hist.append(h)", "sum(t.sum().item() for t in hist)", "hist = []"),
    "a list by +=": Holder("hist += [h]", "sum(t.sum().item() for t in hist)", "hist = []"),
    "a dict": Holder('seen["h"] = h', 'seen["h"].sum().item()', "seen = {}"),
    "dict()": Holder("kept = dict(w=h)", 'kept["w"].sum().item()'),
    "a tuple": Holder("kept = (h, x)", "kept[0].sum().item()"),
    "unpacking": Holder("kept, other = h, x", "kept.sum().item()"),
    "an attribute": Holder("box.last = h", "box.last.sum().item()", "box = SimpleNamespace()"),
    "a chained target": Holder("", "box.last.sum().item()", "box = SimpleNamespace()", chained="box.last = "),
    "a chained name": Holder("", "kept.sum().item()", chained="kept = "),
    "setattr": Holder('setattr(box, "last", h)', "box.last.sum().item()", "box = SimpleNamespace()"),
    "a default value": Holder("probe = lambda p=h: p.sum().item()", "probe()"),
    "partial": Holder("probe = partial(torch.sum, h)", "probe().item()"),
    "a row": Holder("row = h[0]", "row.sum().item()"),
    "narrow": Holder("part = torch.narrow(h, 1, 0, 2)", "part.sum().item()"),
    "a view": Holder("flat = h.view(-1)", "flat.sum().item()"),
    "Identity": Holder("kept = same(h)", "kept.sum().item()", "same = nn.Identity()"),
    "a function": Holder("kept = same(h)", "kept.sum().item()", top="def same(t):\n    return t"),
    "a generator": Holder("kept = next(given(h))", "kept.sum().item()", top="def given(t):\n    yield t"),
    "a comprehension": Holder("kept = [t for t in (h, x)]", "kept[0].sum().item()"),
    "an object": Holder(
        "kept = Trace(h)",
        "kept.t.sum().item()",
        top="class Trace:\n    def __init__(self, t):\n        self.t = t",
    ),
    "one or the other": Holder("kept = h if i % 2 else x", "kept.sum().item()"),
    "its dtype and name": Holder("kept = h", "(kept is h, str(h.dtype), h.sum().item())"),
}

MAKERS = {
    "sigmoid": "torch.sigmoid(net(x))",
    "tanh": "torch.tanh(net(x))",
    "exp": "net(x).exp()",
    "softmax": "net(x).softmax(-1)",
    "sqrt": "(net(x) ** 2 + 1).sqrt()",
    "F.relu": "F.relu(net(x) + 0.5)",
}


@dataclass(frozen=True)
class Way:
    """How ``h`` is written, and what the loss then reads."""

    write: str
    loss: str = "(h * weight).pow(2).mean()"
    setup: str = ""
    top: str = ""
    family: str = "UC101"


WRITES = {
    "h *= 2": Way("h *= 2"),
    "h += 1": Way("h += 1"),
    "h -= v": Way("h -= x.detach()"),
    "h.mul_()": Way("h.mul_(0.5)"),
    "a chain": Way("h.sub_(0.1).mul_(3)"),
    "h[:, 0] = 0": Way("h[:, 0] = 0.0"),
    "h[mask] = 0": Way("h[x < 0.2] = 0.0"),
    "h[1:] *= 2": Way("h[1:] *= 2"),
    "F.relu": Way("F.relu(h, inplace=True)"),
    "y = F.relu": Way("y = F.relu(h, inplace=True)", "(y + h).pow(2).mean()"),
    "ReLU": Way("act(h)", setup="act = nn.ReLU(inplace=True)"),
    "h = ReLU": Way("h = act(h)", setup="act = nn.ReLU6(inplace=True)"),
    "torch.relu_": Way("torch.relu_(h)"),
    "y = h.clamp_()": Way("y = h.clamp_(min=0.3)", "(y * weight).mean() + h.pow(2).mean()"),
    "in an expression": Way("y = h.mul_(2) + x", "(y * weight).pow(2).mean()"),
    "in an argument": Way("y = torch.cat([h.mul_(2), x])", "y.pow(2).mean()"),
    "a walrus": Way("out = (y := h.mul_(2)).mean()", "out + y.pow(2).mean()"),
    "in a condition": Way("if h.mul_(2).mean() > 0.4:\n    h = h + 1"),
    "return t.mul_()": Way(
        "y = scaled(h, 3.0)", "(y * weight).mean() + h.pow(2).mean()",
        top="def scaled(t, f):\n    return t.mul_(f)",
    ),
    "a helper": Way("blank(h)", top="def blank(t):\n    t[:, 1] = 0.0"),
    "masked_fill_": Way("h.masked_fill_(x < 0, 0.25)"),
    "out=": Way("torch.mul(h.detach(), 2, out=twice)\nh *= twice", setup="twice = torch.empty(3, 4)"),
    ".data": Way("h.data.mul_(2)", family="UC102"),
    "detach()": Way("h.detach().mul_(2)"),
    "no_grad": Way("with torch.no_grad():\n    h.mul_(2)"),
}  # fmt: skip

STYLES = ("main", "flat", "forward")


def _lines(*parts: str) -> str:
    return "".join(f"{part}\n" for part in parts if part)


_HEAD = """\
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed({seed})
weight = torch.randn(3, 4)
"""

_END = 'Path(__file__).with_name("out.txt").write_text("\\n".join(told))\n'


def _script(
    style: str, seed: int, top: str, setup: str, body: str, loss: str, tell: str, turns: int = 3
) -> str:
    """The parts as a whole: in a function, at module level, or with the body as a module's ``forward``."""
    head = _HEAD.format(seed=seed)
    step = _lines("opt.zero_grad()", "loss.backward()", "opt.step()")
    told = _lines(f'told.append("%d %.5f %s" % (i, loss.item(), {tell}))', "print(told[-1])")
    opening = _lines("opt = torch.optim.SGD(net.parameters(), lr=0.1)", "told = []", "for i in range(3):")
    if style == "forward":
        names = _lines(*(f"global {name}" for name in _assigned(setup + body)))
        forward = indent(f"{names}{_lines(body.rstrip())}return {loss}\n", "        ")
        owner = f"class Model(nn.Module):\n    def forward(self, x, i):\n{forward}"
        made = _lines("net = nn.Linear(4, 4)", "model = Model()", setup.rstrip())
        loop = indent(_lines("x = torch.randn(3, 4)", "loss = model(x, i)") + step + told, "    ")
        return f"{head}\n\n{_lines(top)}{owner}\n\n{made}{opening}{loop}{_END}"
    inner = _lines("x = torch.randn(3, 4)", body.rstrip(), f"loss = {loss}") + step + told
    text = _lines("net = nn.Linear(4, 4)", setup.rstrip()) + opening + indent(inner, "    ") + _END
    if style == "main":
        text = f"\n\ndef main():\n{indent(text, '    ')}\n\nmain()\n"
    return f"{head}\n{_lines(top)}{text}"


def _assigned(code: str) -> list[str]:
    """Names that lines of code assign: a ``forward`` shares them with what tells of them."""
    names = []
    for line in code.splitlines():
        left = line.strip().partition(" = ")[0] if " = " in line else line.strip().partition(" += ")[0]
        for name in [*left.split(", "), *([line.split("(")[1].split(" := ")[0]] if " := " in line else [])]:
            if name.isidentifier() and name not in ("x", "i", "pass", "else"):
                names.append(name)
        for target in line.strip().split(" = ")[:-1]:
            if target.isidentifier():
                names.append(target)
    return sorted({*names, "h"})


def saved_overwritten(maker: str, holder: str, write: str, style: str = "flat", seed: int = 0) -> Script:
    """A script of UC101 or UC102 from its parts, by their names."""
    held, way = HOLDERS[holder], WRITES[write]
    body = _lines(f"{held.chained}h = {MAKERS[maker]}", held.hold, way.write)
    top, setup = _lines(held.top, way.top), _lines(way.setup, held.setup)
    text = _script(style, seed, top, setup, body, way.loss, held.tell)
    return Script(way.family, f"{maker}, held by {holder}, {write}, {style}", text)


def _any_saved_overwritten(random_: random.Random, family: str) -> Script:
    writes = [name for name, way in WRITES.items() if way.family == family]
    chosen = [random_.choice(list(names)) for names in (MAKERS, HOLDERS, writes, STYLES)]
    return saved_overwritten(*chosen, seed=random_.randrange(100))


@dataclass(frozen=True)
class Pair:
    """What torch refuses, and what it means; ``{0}`` stands for a part that varies."""

    name: str
    wrong: str
    right: str | None
    """None where ``guard`` tells."""
    loss: str = "(h * weight).pow(2).mean()"
    tell: str = "h.sum().item()"
    setup: str = ""
    right_setup: str = ""
    top: str = ""
    right_top: str = ""
    vary: tuple[str, ...] = ("",)


_CHANGES = ("mul_(2)", "add_(1)", "clamp_(min=0.1)", "sub_(0.5).mul_(2)")
_BODY = "h = torch.tanh(net(x))"
_COPIED = "h = torch.tanh(net(x)).clone()"

_KEEPS = """\
class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, s):
        {0}
        return t * s

    @staticmethod
    def backward(ctx, grad):
        {1}
        return grad * s, (grad * t).sum()
"""
_KEPT_ON_CTX = "ctx.t = t\n        ctx.s = s"
_READ_ON_CTX = "t, s = ctx.t, ctx.s"
_PASS = """\
class Part(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t.view(t.shape){0}

    @staticmethod
    def backward(ctx, grad):
        return grad
"""

PAIRS = {
    "UC103": (
        Pair(
            "ctx.t = t",
            "h = net(x)\nscale = h.mean().detach()\ny = Times.apply(h, scale)\nh.{0}",
            "h = net(x)\nscale = h.mean().detach()\ny = Times.apply(h.clone(), scale)\nh.{0}",
            "(y * weight + h).pow(2).mean()",
            top=_KEEPS.format(_KEPT_ON_CTX, _READ_ON_CTX),
            vary=_CHANGES[:2],
        ),
        Pair(
            "ctx.t = t, and saved_tensors",
            "h = net(x) * 1\ny = Times.apply(h, gain)\nh[:, 0] = {0}",
            "h = net(x) * 1\ny = Times.apply(h.clone(), gain)\nh[:, 0] = {0}",
            "(y * weight + h).pow(2).mean()",
            setup="gain = torch.tensor(0.5, requires_grad=True)",
            top=_KEEPS.format(
                "ctx.t = t\n        ctx.save_for_backward(s)", "t, (s,) = ctx.t, ctx.saved_tensors"
            ),
            vary=("0.0", "x[:, 1]"),
        ),
    ),
    "UC201": (
        Pair(
            "a clamp in each turn",
            "net.weight.{0}\nh = net(x)",
            "with torch.no_grad():\n    net.weight.{0}\nh = net(x)",
            tell="net.weight.sum().item()",
            vary=("clamp_(-0.3, 0.3)", "mul_(0.9)", "sub_(0.01)", "div_(1.1)"),
        ),
        Pair(
            "weights set at the start",
            "h = net(x)",
            "h = net(x)",
            setup="net.weight.{0}",
            right_setup="with torch.no_grad():\n    net.weight.{0}",
            tell="net.weight.sum().item()",
            vary=("fill_(0.1)", "mul_(2)", "copy_(torch.eye(4))"),
        ),
        Pair(
            "a step by hand",
            "h = net(x) + shift\nshift.grad = None\n(h.mean() * 2).backward(retain_graph=True)\n"
            "shift -= 0.1 * shift.grad",
            "h = net(x) + shift\nshift.grad = None\n(h.mean() * 2).backward(retain_graph=True)\n"
            "with torch.no_grad():\n    shift -= 0.1 * shift.grad",
            "h.pow(2).mean()",
            "shift.sum().item()",
            setup="shift = torch.zeros(4, requires_grad=True)",
        ),
    ),
    "UC202": (
        Pair(
            "a row of the weights",
            "net.weight[i % 4] {0}\nh = net(x)",
            "with torch.no_grad():\n    net.weight[i % 4] {0}\nh = net(x)",
            tell="net.weight.sum().item()",
            vary=("= 0.0", "*= 0.5", "= x[0]"),
        ),
        Pair(
            "a row, and a penalty beside it",
            "net.weight[i % 4] {0}\npenalty = net.weight.pow(2).sum()\nh = net(x)",
            "with torch.no_grad():\n    net.weight[i % 4] {0}\npenalty = net.weight.pow(2).sum()\nh = net(x)",
            "h.pow(2).mean() + penalty",
            "net.weight.sum().item()",
            vary=("= 0.0", "+= 0.1"),
        ),
    ),
    "UC203": (
        Pair(
            "halves",
            f"{_BODY}\na, b = h.{{0}}\na.mul_(2)",
            f"{_COPIED}\na, b = h[:, :2], h[:, 2:]\na.mul_(2)",
            "(h * weight).pow(2).mean() + a.mean() - b.pow(2).mean()",
            vary=("chunk(2, 1)", "split(2, 1)", "split([2, 2], dim=1)"),
        ),
        Pair(
            "rows by unbind",
            f"{_BODY}\na, b, c = h.unbind()\n{{0}}",
            f"{_COPIED}\na, b, c = h[0], h[1], h[2]\n{{0}}",
            "(h * weight).pow(2).mean() + (a * b).mean() + c.mean()",
            vary=("a += 1", "b.mul_(3)", "c[0] = 0.0"),
        ),
        Pair(
            "a loop over rows",
            f"{_BODY}\nfor row in h:\n    row.{{0}}",
            f"{_COPIED}\nfor n in range(3):\n    h[n].{{0}}",
            vary=_CHANGES,
        ),
        Pair(
            "a loop over numbered rows",
            f"{_BODY}\nfor n, row in enumerate(h):\n    if n > 0:\n        row {{0}}",
            f"{_COPIED}\nfor n in range(1, 3):\n    h[n] {{0}}",
            vary=("*= 2", "+= 1"),
        ),
        Pair(
            "rows beside others",
            f"{_BODY}\nfor row, other in zip(h, x):\n    row.{{0}}",
            f"{_COPIED}\nfor n in range(3):\n    other = x[n]\n    h[n].{{0}}",
            vary=("mul_(other)", "add_(other)"),
        ),
    ),
    "UC204": (
        Pair(
            "a view from a method under no_grad",
            "h = net(x) + 1\nrow = first(h)\nrow.{0}",
            "h = net(x) + 1\nrow = h[0]\nseen.append(row.mean().item())\nrow.{0}",
            tell="sum(seen)",
            setup="seen = []",
            top="@torch.no_grad()\ndef first(t):\n    row = t[0]\n"
            "    seen.append(row.mean().item())\n    return row",
            vary=_CHANGES[:2],
        ),
        Pair(
            "a view under no_grad",
            "h = net(x) + 1\nwith torch.no_grad():\n    row = h[0]\nrow.{0}",
            "h = net(x) + 1\nrow = h[0]\nrow.{0}",
            vary=_CHANGES[:2],
        ),
    ),
    "UC205": (
        Pair(
            "a view from a custom Function",
            "h = net(x) * 2\ny = Part.apply(h)\ny.{0}",
            "h = net(x) * 2\ny = Part.apply(h)\ny.{0}",
            "(y * weight).pow(2).mean()",
            top=_PASS.format(""),
            right_top=_PASS.format(".clone()"),
            vary=_CHANGES,
        ),
    ),
    "UC206": (
        Pair(
            "a target from inference mode",
            "with torch.inference_mode():\n    goal = target(x){0}\nh = net(x)",
            "with torch.no_grad():\n    goal = target(x){0}\nh = net(x)",
            "(h * goal).mean() + h.pow(2).mean()",
            "goal.sum().item()",
            setup="target = nn.Linear(4, 4)",
            vary=("", ".tanh()"),
        ),
        Pair(
            "a function in inference mode",
            "h = net(x)\ngoal = goal_of(x)",
            "h = net(x)\ngoal = goal_of(x)",
            "(h * goal).mean()",
            "goal.sum().item()",
            top="@torch.inference_mode()\ndef goal_of(t):\n    return t.{0}",
            right_top="@torch.no_grad()\ndef goal_of(t):\n    return t.{0}",
            vary=("sin()", "exp()"),
        ),
    ),
    "UC207": (
        Pair(
            "an expanded tensor",
            "h = net(x[:1]).{0}\nh += x",
            "h = net(x[:1]).{0}.clone()\nh += x",
            vary=("expand(3, 4)", "expand(3, -1)", "broadcast_to((3, 4))"),
        ),
        Pair(
            "an expanded tensor, by a method",
            "h = net(x)[:1].expand(3, 4)\nh.{0}",
            "h = net(x)[:1].expand(3, 4).clone()\nh.{0}",
            vary=_CHANGES,
        ),
        Pair(
            "an expanded tensor that others hold",
            "h = net(x[0]).expand(3, 4)\nkept = h\nh {0}",
            "h = net(x[0]).expand(3, 4).clone()\nkept = h\nh {0}",
            tell="kept.sum().item()",
            vary=("*= x", "-= 1"),
        ),
        Pair(
            "overlapping parts",
            "h = net(x) + 0\nh[1:] {0} h[:-1]",
            "h = net(x) + 0\nh[1:] {0} h[:-1].clone()",
            vary=("+=", "-="),
        ),
    ),
    "UC208": (
        Pair(
            "detach_ on a view",
            "h = net(x)\nlast = h.{0}\nlast.detach_()\nh = h + last",
            "h = net(x)\nlast = h.{0}.detach()\nh = h + last",
            tell="last.sum().item()",
            vary=("view(3, 4)", "t().t()"),
        ),
    ),
}  # fmt: skip


def _refused(random_: random.Random, family: str) -> Script:
    """The families where torch refuses what is written; the twin is what the text means."""
    pair = random_.choice(PAIRS[family])
    part, seed, style = random_.choice(pair.vary), random_.randrange(100), random_.choice(STYLES[:2])

    def filled(text: str) -> str:
        return text.replace("{0}", part)

    def script(body: str, setup: str, top: str) -> str:
        return _script(style, seed, filled(top), filled(setup), filled(body), pair.loss, pair.tell)

    if "seen" in pair.top:
        style = "flat"  # its function reads a global
    wrong = script(pair.wrong, pair.setup, pair.top)
    right = script(pair.right or pair.wrong, pair.right_setup or pair.setup, pair.right_top or pair.top)
    return Script(family, f"{pair.name}, {part or 'plain'}, {style}", wrong, right)


# --- UC301: states that are carried, and two losses of one graph ------------------------------------


@dataclass(frozen=True)
class State:
    """Where a state is kept from turn to turn."""

    start: str
    read: str
    """An expression for the tensor that was kept."""
    store: str
    cut: str
    top: str = ""


STATES = {
    "a name": State("h = torch.zeros(3, 4)", "h", "h = new", "h = h.detach()"),
    "a dict": State(
        'state = {"h": torch.zeros(3, 4)}', 'state["h"]', 'state["h"] = new',
        'state["h"] = state["h"].detach()',
    ),
    "a list": State("hs = [torch.zeros(3, 4)]", "hs[-1]", "hs.append(new)", "hs[-1] = hs[-1].detach()"),
    "an element": State("hs = [torch.zeros(3, 4), 0]", "hs[0]", "hs[0] = new", "hs[0] = hs[0].detach()"),
    "an attribute": State(
        "box = SimpleNamespace(h=torch.zeros(3, 4))", "box.h", "box.h = new", "box.h = box.h.detach()"
    ),
    "a tuple": State(
        "state = (torch.zeros(3, 4), torch.zeros(3, 4))", "state[0]", "state = (new, new * 2)",
        "state = tuple(one.detach() for one in state)",
    ),
    "a module": State("cell = Cell()", "", "", "cell.h = cell.h.detach()"),
    "a module's dict": State("cell = Keeper()", "", "", 'cell.kept["h"] = cell.kept["h"].detach()'),
}  # fmt: skip

_CELLS = """\
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.rec = nn.Linear(4, 4)
        self.h = torch.zeros(3, 4)

    def forward(self, x):
        self.h = torch.tanh(x + self.rec(self.h))
        return self.h


class Keeper(nn.Module):
    def __init__(self):
        super().__init__()
        self.rec = nn.Linear(4, 4)
        self.kept = {"h": torch.zeros(3, 4)}

    def forward(self, x):
        self.kept["h"] = torch.tanh(x + self.rec(self.kept["h"]))
        return self.kept["h"]
"""


def _graph_freed(random_: random.Random, _: str) -> Script:
    return random_.choice([_carried, _carried, _two_losses])(random_)


def _carried(random_: random.Random) -> Script:
    """A state that each turn reads; backward in each turn, or at the end of a window that may grow."""
    name, seed = random_.choice(list(STATES)), random_.randrange(100)
    state, window = STATES[name], random_.choice(["1", "2", "1 if i < 3 else 3"])
    style = random_.choice(STYLES[:2])

    def script(cut: str) -> str:
        advance = (
            _lines(f"new = torch.tanh(net(x) + rec({state.read}))", state.store)
            if state.read
            else _lines("new = net(cell(x))")
        )
        turn = (
            "x = torch.randn(3, 4)\n"
            + advance
            + _lines("total = total + (new * weight).pow(2).mean()", "count += 1", f"if count == ({window}):")
            + indent(
                _lines(
                    "opt.zero_grad()", "total.backward()", cut, "opt.step()",
                    'told.append("%d %.5f" % (i, total.item()))', "print(told[-1])", "total, count = 0.0, 0",
                ),
                "    ",
            )
        )  # fmt: skip
        text = (
            _lines("net, rec = nn.Linear(4, 4), nn.Linear(4, 4)", state.start)
            + _lines("opt = torch.optim.SGD([*net.parameters(), *rec.parameters()], lr=0.1)")
            + _lines("told, total, count = [], 0.0, 0", "for i in range(9):")
            + indent(turn, "    ")
            + _END
        )
        if style == "main":
            text = f"\n\ndef main():\n{indent(text, '    ')}\n\nmain()\n"
        return _HEAD.format(seed=seed) + (f"\n\n{_CELLS}\n\n" if not state.read else "\n") + text

    return Script("UC301", f"{name}, window {window}, {style}", script(""), script(state.cut))


_LOSSES = {
    "two": (_lines("a.backward()", "b.backward()"), _lines("a.backward(retain_graph=True)", "b.backward()")),
    "a print between": (
        _lines("a.backward()", "mean = a.item()", "b.backward()"),
        _lines("a.backward(retain_graph=True)", "mean = a.item()", "b.backward()"),
    ),
    "a loop": (
        _lines("for part in (a, b):", "    part.backward()"),
        _lines("for part in (a, b):", "    part.backward(retain_graph=True)"),
    ),
    "one in a condition": (
        _lines("a.backward()", "if i % 2:", "    b.backward()"),
        _lines("a.backward(retain_graph=True)", "if i % 2:", "    b.backward()"),
    ),
    "three": (
        _lines("a.backward()", "b.backward()", "(a * b).backward()"),
        _lines("a.backward(retain_graph=True)", "b.backward(retain_graph=True)", "(a * b).backward()"),
    ),
}


def _two_losses(random_: random.Random) -> Script:
    """Losses of one graph, each with a backward of its own."""
    name, seed, style = random_.choice(list(_LOSSES)), random_.randrange(100), random_.choice(STYLES[:2])
    trunk = random_.choice(list(MAKERS))

    def script(backwards: str) -> str:
        turn = (
            _lines(
                "x = torch.randn(3, 4)", f"h = {MAKERS[trunk]}", "a, b = h.pow(2).mean(), (h * weight).mean()"
            )
            + "opt.zero_grad()\n"
            + backwards
            + _lines("opt.step()", 'told.append("%d %.5f %.5f" % (i, a.item(), b.item()))', "print(told[-1])")
        )
        text = (
            _lines("net = nn.Linear(4, 4)", "opt = torch.optim.SGD(net.parameters(), lr=0.1)", "told = []")
            + "for i in range(4):\n"
            + indent(turn, "    ")
            + _END
        )
        if style == "main":
            text = f"\n\ndef main():\n{indent(text, '    ')}\n\nmain()\n"
        return _HEAD.format(seed=seed) + "\n" + text

    wrong, right = _LOSSES[name]
    return Script("UC301", f"{trunk}, losses: {name}, {style}", script(wrong), script(right))


_FAMILIES = {
    "UC101": 44, "UC102": 6, "UC103": 4, "UC201": 6, "UC202": 4, "UC203": 8, "UC204": 3, "UC205": 2,
    "UC206": 3, "UC207": 6, "UC208": 2, "UC301": 12,
}  # fmt: skip
"""How many of a hundred scripts are of each family."""

_MAKE = {"UC101": _any_saved_overwritten, "UC102": _any_saved_overwritten, "UC301": _graph_freed}


def scripts(number: int, *, seed: int = 0) -> Iterator[Script]:
    """The first ``number`` of an endless row of scripts, no two the same; any stretch holds every family."""
    random_ = random.Random(seed)
    order = [family for family, share in _FAMILIES.items() for _ in range(share)]
    random_.shuffle(order)
    seen: set[str] = set()
    tries = 0
    while len(seen) < number:
        family = order[tries % len(order)]
        tries += 1
        script = _MAKE.get(family, _refused)(random_, family)
        if script.text not in seen:
            seen.add(script.text)
            yield script
