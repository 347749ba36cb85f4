"""What public repositories showed to be no fault, because another branch, caller or default rules it out; and
that the fault beside it is still told."""

from __future__ import annotations

from textwrap import dedent

import pytest
from test_check_programs import found_in

from checked_text import check_text

EXPANDED = """
    def lengths(end, n):
        if end is None:
            each = torch.tensor(3).expand(n)
        else:
            each = torch.randint(1, 4, (n,))
        if end is {test} None:
            each -= 1
        return each
"""
TRIED = """
    class Trainer:
        def __init__(self):
            self.net = nn.Linear(3, 3)
        def epoch(self, loader, optimizer):
            for x in loader:
                optimizer.zero_grad()
                try:
                    out = self.net(x)
                except ValueError:
                    {end}
                out.pow(2).mean().backward()
                optimizer.step()
        def run(self, loader):
            optimizer = torch.optim.Adam(self.net.parameters())
            for _ in range(3):
                self.epoch(loader, optimizer)
"""
AVERAGED = """
    def average(target, source):
        {first}
        for p, q in zip(target.parameters(), source.parameters()):
            p.copy_(q)
"""
TURNED_ON = "for p in target.parameters(): p.requires_grad_(True)"
ADDED = """
    class Add(nn.Module):
        def __init__(self, inplace=False):
            super().__init__()
            self.inplace = inplace
        def forward(self, a, b):
            if self.inplace:
                a += b
            else:
                a = a + b
            return a
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3)
            self.add = Add({given})
        def forward(self, x):
            return self.add(x, self.conv(x))
"""
NAMED = """
    from collections import OrderedDict
    class Block(nn.Module):
        def __init__(self, act):
            super().__init__()
            parts = OrderedDict([("conv", nn.Conv2d(3, 3, 3)), ("norm", nn.BatchNorm2d(3))])
            {first}
            {second}
            self.parts = nn.Sequential(parts)
        def forward(self, x):
            return self.parts(x)
"""
PARTS = ('parts["one"] = nn.ReLU()', 'parts["one"] = nn.ReLU6(inplace=True)')
CHOSEN = """
    def build(names):
        chain = nn.Sequential()
        for name in names:
            {one}
            {other}
        return chain
    class Net(nn.Module):
        def __init__(self, names):
            super().__init__()
            self.linear, self.chain = nn.Linear(3, 3), build(names)
        def forward(self, x):
            x = self.linear(x)
            return self.chain(x)
"""
CHAIN = ('chain.add_module("a", nn.Sigmoid())', 'chain.add_module("b", nn.ReLU(inplace=True))')
DECODED = """
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.out, self.cell = nn.Linear(3, 3), nn.LSTM(3, 3)
        def forward(self, x, hidden):
            made = torch.zeros(x.shape)
            for i in range(x.shape[1]):
                made[:, i] = self.out(hidden[0][0])
                if {training}:
                    hidden = self.cell(x[:, i], hidden)[1]
                else:
                    hidden = self.cell(made[:, i], hidden)[1]
            return made
"""
STANDARDIZED = """
    class Net(nn.Module):
        def forward(self, given):
            x = given - given.mean()
            size = x.norm(dim=-1, keepdim=True)
            {written}
            return x * size
"""
MARKED = """
    def quantized(x, scale):
        return {result}
    class Quantize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.mark_dirty(x)
            made = {call}
            return made
        @staticmethod
        def backward(ctx, grad):
            return grad, None
"""
PAIRS = [
    pytest.param(EXPANDED.format(test="not"), EXPANDED.format(test=""), id="a condition and its opposite"),
    pytest.param(TRIED.format(end="exit()"), TRIED.format(end="print(x)"), id="a program that ends"),
    pytest.param(AVERAGED.format(first=""), AVERAGED.format(first=TURNED_ON), id="a network that is given"),
    pytest.param(ADDED.format(given=""), ADDED.format(given="inplace=True"), id="an own class's default"),
    pytest.param(
        NAMED.format(first=f"if act == 1: {PARTS[0]}", second=f"elif act == 2: {PARTS[1]}"),
        NAMED.format(first=PARTS[0], second=PARTS[1].replace("one", "two")), id="a part under the same name",
    ),
    pytest.param(
        CHOSEN.format(one=f"if name == 'b': {CHAIN[1]}", other=f"else: {CHAIN[0]}"),
        CHOSEN.format(one=CHAIN[0], other=CHAIN[1]), id="parts that a condition chooses",
    ),
    pytest.param(
        DECODED.format(training="self.training"), DECODED.format(training="x.is_cuda"), id="evaluation alone"
    ),
    pytest.param(
        STANDARDIZED.format(written="x /= size"), STANDARDIZED.format(written="size += 1"), id="an input"
    ),
    pytest.param(
        MARKED.format(result="x.mul_(scale)", call="quantized(x, scale)"),
        MARKED.format(result="x", call="torch.round(x * scale)"), id="what an own function returns",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong"), PAIRS)
def test_what_rules_a_fault_out(right, wrong):
    """The first of each pair is right; the second has the fault that the first looks like."""
    assert found_in(right) == []
    assert len(found_in(wrong, all_rules=True)) == 1


def test_an_own_class_that_is_frozen(tmp_path):
    """``requires_grad_(False)`` reaches the parts of an object, here of another file's class."""
    net = """
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 3)
    """
    (tmp_path / "net.py").write_text(dedent(net))
    body = """
        import torch
        def reset(device):
            from net import Net
            made = Net().to(device)
            made.requires_grad_({on})
            made.layer.weight.zero_()
    """
    path = str(tmp_path / "reset.py")
    assert check_text(dedent(body).format(on="False"), path) == []
    assert [one.code for one in check_text(dedent(body).format(on="True"), path)] == ["UC201"]
