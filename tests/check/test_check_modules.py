"""A module that is one of several, comes from a table, or is passed to another is followed as any other."""

from __future__ import annotations

from textwrap import dedent

import pytest
from test_check_imports import write_tree
from test_check_programs import found_in

from unclobber.static import check_text


def blamed(*args, **options):
    return [statement for _, _, statement in found_in(*args, **options)]


ACTIVATED = """
from functools import partial
TABLE = {{"relu": nn.ReLU, "gelu": nn.GELU, "leaky": partial(nn.LeakyReLU, 0.1)}}
MADE = {{"relu": nn.ReLU(), "gelu": nn.GELU()}}
def get(name):
    if name == "relu":
        return nn.ReLU()
    elif name == "gelu":
        return nn.GELU()
    raise ValueError(name)
class Net(nn.Module):
    def __init__(self, act="relu", leaky=False, kept=nn.ReLU()):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.act = {}
    def forward(self, x):
        y = self.act(self.fc(x))
        y += x
        return y
"""


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("TABLE[act]()", True),
        ("MADE[act]", True),
        ("get(act)", True),
        ("nn.Sequential(nn.Linear(3, 3), get(act))", True),
        ("nn.LeakyReLU(0.2) if leaky else nn.ReLU()", True),
        ("nn.Sigmoid() if leaky else nn.Identity()", False),
        ("TABLE['gelu']()", False),
        ("get('gelu')", False),
        ("TABLE[unknown]()", False),
    ],
)
def test_one_of_several_activations(made, expected):
    """What a table has at a parameter's default is certain enough; what only one of two saves is not."""
    assert blamed(ACTIVATED.format(made)) == ["y += x"] * expected


def test_a_table_of_another_file(tmp_path):
    """It is read there, with the names of that file: ``ACT2FN`` of many a language model."""
    tables = "from torch.nn import ReLU, GELU as G\nACT = {'relu': ReLU(), 'gelu': G()}\n"
    write_tree(tmp_path, {"tables.py": tables})
    head = "import torch\nfrom torch import nn\nfrom tables import ACT\n"
    for name, expected in (("relu", 1), ("gelu", 0)):
        text = head + ACTIVATED.format(f"ACT['{name}']")
        assert len(check_text(text, str(tmp_path / "net.py"))) == expected


BLOCKS = """
from unknown.runner import BaseModule
class Unit(Base):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    def forward(self, x):
        return F.relu(self.fc(x))
class Light(nn.Module):
    def forward(self, x, t):
        x[:, 0:2] = t
        return x
class Block(nn.Module):
    def __init__(self, middle):
        super().__init__()
        self.first, self.last, self.middle = Unit(), Unit(), middle
    def forward(self, x, t):
        x = self.first(x)
        x = self.middle(x, t)
        return self.last(x)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.light = Light()
        self.inner = Block(self.light)
        self.block = Block(self.inner)
        self.units = nn.ModuleList()
        for _ in range(2):
            self.units.append(Unit())
    def forward(self, x, t):
        {}
        return x
"""


@pytest.mark.parametrize(
    ("base", "lines", "expected"),
    [
        ("BaseModule", "x = self.units[0](x)\n        x += t", ["x += t"]),
        ("unknown.Module", "x = self.units[0](x)\n        x += t", ["x += t"]),
        ("nn.Module", "x = self.block(x, t)", ["x[:, 0:2] = t"]),
        ("nn.Module", "for u in self.units: x = u(x)\n        x += t", ["x += t"]),
        (
            "nn.Module",
            "for i, u in enumerate(self.units):\n            x = u(x)\n            if i == 0: all = x\n"
            "            else: all += x",
            ["else: all += x"],
        ),
    ],
)
def test_modules_of_a_project(base, lines, expected):
    """A class with a ``forward`` is one, whatever its base is, and one that another is given is followed."""
    assert blamed(BLOCKS.replace("Base)", f"{base})").format(lines)) == expected


def test_a_part_that_is_one_of_unlike_ones():
    """The step of one network ends the graph of each: ``MultiScaleDiscriminator`` of a vocoder."""
    body = """
    class Score(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 1)])
        def forward(self, x):
            kept = []
            for layer in self.layers:
                x = layer(x)
                kept.append(x)
            return kept
    g, d = nn.Linear(2, 2), Score()
    og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
    for x in loader:
        scores = d(g(x))
        (d(x)[-1].mean() + 1).backward()
        od.step()
        loss = 0
        for score in scores:
            loss += -score[-1].mean()
        loss.backward()
        og.step()
    """
    assert blamed(body) == ["od.step()"]


HEADS = """
from einops import rearrange
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
    def forward(self, x, h=2):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        {}
        q *= 0.5
        return q @ k @ v
"""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("q, k, v = map(lambda t: rearrange(t, 'b n (h d) -> b h n d', h=h), (q, k, v))", True),
        ("q, k, v = map(lambda t: rearrange(t, 'b n d -> b (n d)'), (q, k, v))", True),
        ("q, k, v = map(lambda t: rearrange(t, 'b (h d) x y -> b h (x y) d', h=h), (q, k, v))", True),
        ("q, k, v = map(lambda t: rearrange(t, 'b n (h d) -> (b h) n d', h=h), (q, k, v))", False),
        ("q, k, v = map(lambda t: t * 2, (q, k, v))", False),
        ("q, k, v = map(torch.clone, (q, k, v))", False),
        ("q = torch.reshape(q, (x.size(0), h, 4, 1))", True),
        ("q = q.reshape(x.size(0), h, 4, 1)", True),
        ("q = q.reshape(x.size(0) * h, 2, 2, 1)", False),
        ("q = q.reshape(-1)", False),
    ],
)
def test_heads_of_a_part_of_a_split(lines, expected):
    """They are views of it, unless axes are merged that are no neighbours."""
    assert blamed(HEADS.format(lines)) == ["q *= 0.5"] * expected


FORWARD = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.lstms = nn.Linear(3, 3), nn.ModuleList(nn.LSTM(3, 3) for _ in range(2))
    def forward(self, x, parents, lengths):
        {}
        return x
"""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("x = x.clone()\n        for i in range(1, 3): x[:, i] = torch.matmul(x[:, i - 1], x[:, i])", True),
        ("x[:, 0] = x[:, 0].clamp(min=0)", False),
        (
            "x = nn.utils.rnn.pack_padded_sequence(self.fc(x), lengths)\n        out = []\n"
            "        for rnn in self.lstms:\n            y = rnn(x)[0]\n            out.append(y[0])\n"
            "            x = y",
            False,
        ),
    ],
)
def test_parts_of_a_tensor_in_a_forward(lines, expected):
    assert len(blamed(FORWARD.format(lines))) == expected


def test_containers_of_other_libraries(tmp_path):
    """Those of mmcv are torch's own classes with another base."""
    body = """
    import torch.nn as nn
    from {} import ModuleList, Sequential
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = ModuleList()
            for _ in range(3):
                self.blocks.append(Sequential(nn.Linear(3, 3), nn.ReLU()))
        def forward(self, x, y):
            for block in self.blocks:
                x = block(x)
            x += y
            return x
    """
    for library, expected in (("mmcv.runner", 1), ("mmengine.model", 1), ("unknown", 0)):
        assert len(check_text(dedent(body.format(library)), "net.py")) == expected
