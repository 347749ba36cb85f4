"""Small programs of every code, as texts. ``w`` is a leaf of four elements; ``keep`` is told of tensors that
must not outlive the program."""

from __future__ import annotations

import re
import textwrap
import weakref
from dataclasses import dataclass, field
from typing import Any

import torch

_HEAD = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
def program(w, before, before_loss, keep):
"""

PROGRAMS: dict[str, tuple[str, str]] = {
    "result": ("UC101", "y = keep(w.exp())\ny.add_(1)\ny.sum().backward()\n"),
    "operand through a library": (
        "UC101",
        "layer = nn.Linear(4, 2)\nh = keep(w * 2)\nout = nn.functional.linear(h, layer.weight)\n"
        "h.mul_(3)\nh.add_(1)\nout.sum().backward()\n",
    ),
    "two saves": (
        "UC101",
        "def square(t):\n    return t ** 2\na = keep(w.exp())\nloss = square(a).sum() + a.sin().sum()\n"
        "a[0] = 0.\nloss.backward()\n",
    ),
    "other elements": (
        "UC101",
        "a = keep(w * 1)\ny = a[:2].exp()\ny2 = a[:2] ** 2\na[3] = 5.\ny2.sum().backward()\n",
    ),
    "optimizer": (
        "UC101",
        "net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))\n"
        "opt = torch.optim.SGD(net.parameters(), 0.1)\nloss = net(w * 1).sum()\n"
        "loss.backward(retain_graph=True)\nopt.step()\nloss.backward()\n",
    ),
    "inplace module": (
        "UC101",
        "net = nn.Sequential(nn.Sigmoid(), nn.ReLU(inplace=True))\nnet(w * 1).sum().backward()\n",
    ),
    "detached in place": ("UC101", "a = keep(w * 1)\ny = a ** 2\na.detach_()\ny.sum().backward()\n"),
    "saved before": ("UC101", "before.add_(1)\nbefore_loss.backward()\n"),
    "data": ("UC102", "y = keep(w.sigmoid())\ny.data.zero_()\ny.sum().backward()\n"),
    "other memory": (
        "UC102",
        "v = torch.ones(4, requires_grad=True)\nl = (v * w).sum()\nv.data = v.data * 3\nl.backward()\n",
    ),
    "misread": (
        "UC102",
        "loss = w.exp().sum()\nm = torch.arange(12.).view(3, 4)\n"
        "m[:, 1:].copy_(m[:, :-1])\nloss.backward()\n",
    ),
    "on ctx": (
        "UC103",
        "class Double(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        ctx.x = x\n        return x * x\n    @staticmethod\n"
        "    def backward(ctx, g):\n        return 2 * g * ctx.x\n"
        "h = keep(w * 1)\ny = Double.apply(h)\nwith torch.no_grad():\n    h.add_(1)\ny.sum().backward()\n",
    ),
    "dirty": (
        "UC103",
        "class Dirty(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        x.add_(1)\n        ctx.mark_dirty(x)\n        return x.clone()\n"
        "    @staticmethod\n    def backward(ctx, g):\n"
        "        return g\nDirty.apply(w * 1)\n",
    ),
    "gradient": (
        "UC104",
        "def triple(g):\n    g.mul_(3)\nq, p = w * 2, w * 1\np.register_hook(triple)\ntotal = q + p\n"
        "(total * total).sum().backward()\n",
    ),
    "recompute": (
        "UC105",
        "scale = torch.ones(4)\ny = checkpoint(lambda x: (x * scale).exp(), w * 1, use_reentrant=False)\n"
        "scale.mul_(2)\ny.sum().backward()\n",
    ),
    "old copy": (
        "UC106",
        "v = torch.ones(2, 2, requires_grad=True)\nwith torch.autocast('cpu'):\n"
        "    torch.mm(v, v).sum().backward()\n"
        "    v.data.mul_(2)\n    y = torch.mm(v, v)\ny.sum().backward()\n",
    ),
    "leaf": ("UC201", "w.add_(1)\n"),
    "leaf view": ("UC202", "w[0] = 1.\n"),
    "several views": ("UC203", "h = w * 1\na, b = h.chunk(2)\na.mul_(2)\n"),
    "view without grad": ("UC204", "h = w * 1\nwith torch.no_grad():\n    v = h[:2]\nv.mul_(2)\n"),
    "view of a Function": (
        "UC205",
        "class View(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        return x.view(-1)\n    @staticmethod\n    def backward(ctx, g):\n        return g\n"
        "View.apply(w * 1).mul_(2)\n",
    ),
    "inference tensor saved": ("UC206", "with torch.inference_mode():\n    e = torch.ones(4)\ny = w * e\n"),
    "inference tensor written": ("UC206", "with torch.inference_mode():\n    e = torch.ones(4)\ne.add_(1)\n"),
    "inference tensor trained": (
        "UC206",
        "with torch.inference_mode():\n    e = torch.ones(4)\ne.requires_grad_()\n",
    ),
    "expanded": ("UC207", "e = torch.ones(1).expand(3)\ne.add_(1)\n"),
    "view detached": ("UC208", "h = w * 1\nv = h[:2]\nv.detach_()\n"),
    "unbatched": (
        "UC209",
        "def f(x):\n    out = torch.zeros(2)\n    out.copy_(x)\n    return out\n"
        "torch.func.vmap(f)(w.view(2, 2))\n",
    ),
    "twice": ("UC301", "y = keep(w.exp().sum())\ny.backward()\ny.backward()\n"),
    "carried": (
        "UC301",
        "h = torch.zeros(4)\nfor _ in range(2):\n    h = torch.tanh(w * h + w)\n    h.sum().backward()\n",
    ),
}
"""Code and text, by what happens."""

PAST_TORCH = "y = keep(w.exp())\na = y.detach().numpy()\na[0] = 5\ny.sum().backward()\n"
"""UC102 too, but seen only where the content of saved tensors is compared."""


def without_page(shown):
    """A report without the page of its code, which is Markdown and the same for every finding."""
    return re.sub('<details class="uc-page">.*?</details>', "", shown, flags=re.DOTALL)


def source_of(text: str) -> str:
    """The whole text: a function, so that what it leaves alive isn't held by the names of a module."""
    return _HEAD + textwrap.indent(text, "    ")


@dataclass
class Run:
    """What a program works on."""

    text: str
    path: str
    w: torch.Tensor = field(default_factory=lambda: torch.linspace(0.1, 1.0, 4).requires_grad_())
    kept: list[weakref.ref[torch.Tensor]] = field(default_factory=list)

    def __post_init__(self) -> None:
        before = self.w * 1
        self.before, self.before_loss = before, before.exp().sum() + (before**2).sum()
        self.keep(self.w)
        self.keep(before)

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        self.kept.append(weakref.ref(tensor))
        return tensor

    def __call__(self) -> None:
        torch.manual_seed(0)
        names: dict[str, Any] = {"__name__": "program"}
        exec(compile(source_of(self.text), self.path, "exec"), names)
        names["program"](self.w, self.before, self.before_loss, self.keep)
