"""However Python spells a network, a write over what it keeps is found; torch refuses each program, too."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch
from test_check_programs import HEAD, found_in

WRITTEN, NEW = "h += 1", "h = h + 1"

PROGRAMS = {
    "super": """
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.fc(x).sigmoid()
        class Net(Base):
            def __init__(self):
                super(Net, self).__init__()
            def forward(self, x):
                h = super().forward(x)
                {write}
                return h
        """,
    "a method of a base that calls one of this class": """
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                h = self.activate(self.fc(x))
                {write}
                return h
            def activate(self, x):
                raise NotImplementedError
        class Net(Base):
            def activate(self, x):
                return x.sigmoid()
        """,
    "a chain by inheritance": """
        class Block(nn.Sequential):
            def __init__(self, width):
                super().__init__(nn.Linear(width, width), nn.Sigmoid())
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.block = Block(4)
            def forward(self, x):
                h = self.block(x)
                {write}
                return h
        """,
    "an ordered dictionary": """
        from collections import OrderedDict
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.block = nn.Sequential(OrderedDict([("fc", nn.Linear(4, 4)), ("act", nn.Sigmoid())]))
            def forward(self, x):
                h = self.block(x)
                {write}
                return h
        """,
    "computed names of attributes": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                for i in range(2):
                    setattr(self, f"layer{{i}}", nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()))
            def forward(self, x):
                for i in range(2):
                    x = getattr(self, f"layer{{i}}")(x)
                h = x
                {write}
                return h
        """,
    "computed names of modules": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                for i in range(2):
                    self.add_module("layer%d" % i, nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()))
            def forward(self, x):
                h = self.layer1(self.layer0(x))
                {write}
                return h
        """,
    "a class as a default": """
        class Net(nn.Module):
            def __init__(self, act_layer=nn.Sigmoid):
                super().__init__()
                self.fc, self.act = nn.Linear(4, 4), act_layer()
            def forward(self, x):
                h = self.act(self.fc(x))
                {write}
                return h
        """,
    "a lambda": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc, self.act = nn.Linear(4, 4), lambda t: t.sigmoid()
            def forward(self, x):
                h, other = map(lambda fc: self.act(fc(x)), (self.fc, self.fc))
                {write}
                return h + other
        """,
    "a match": """
        class Net(nn.Module):
            def __init__(self, kind="a"):
                super().__init__()
                self.fc, self.kind = nn.Linear(4, 4), kind
            def forward(self, x):
                match self.kind:
                    case "a":
                        h = self.fc(x).sigmoid()
                    case _:
                        h = self.fc(x).tanh()
                {write}
                return h
        """,
}


@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS)
def test_a_network_however_it_is_spelled(body):
    assert [text for *_, text in found_in(body.format(write=WRITTEN), all_rules=True)] == [WRITTEN]
    assert found_in(body.format(write=NEW)) == []
    run(body.format(write=NEW))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        run(body.format(write=WRITTEN))


def run(body: str) -> None:
    names: dict[str, object] = {}
    exec(HEAD + dedent(body), names)
    names["Net"]()(torch.randn(2, 4)).sum().backward()
