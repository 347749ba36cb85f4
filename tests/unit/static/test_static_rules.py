"""The rules of ``check``, and the table of functions that follow calls."""

from __future__ import annotations

import string

import pytest

from unclobber.model import CODES
from unclobber.static import CheckRule
from unclobber.static._call import transfer_functions
from unclobber.static._program import PARTS, followed

WORDS = {"name", "operation", "kept", "how", "done", "more"}
"""What ``findings`` puts into the texts of a rule."""


@pytest.mark.parametrize("rule", CheckRule)
def test_texts_use_known_words(rule):
    texts = (rule.value.message, rule.value.write, rule.value.saved)
    used = {name for text in texts for _, name, *_ in string.Formatter().parse(text) if name}
    assert used <= WORDS
    assert rule.value.code in CODES


def test_no_two_rules_are_one():
    """Members of an Enum with equal values would be aliases."""
    assert len(CheckRule.__members__) == len(list(CheckRule))


def test_each_kind_of_receiver_has_a_default():
    """A method that no function knows by name gets the default of its receiver's kind."""
    assert len(PARTS) == 2
    kinds = {kind for kind, name in transfer_functions if name not in ("", "__call__")}
    with_default = {kind for kind, name in transfer_functions if not name}
    assert kinds - with_default == {"any", "builtin", "torch", "optimizer", "einops", "mmcv"}


def test_one_of_several_uses_is_blamed_in_every_run():
    """The last use, whatever the order of a set of names is."""
    text = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2)
        self.b = nn.Linear(2, 2)
    def forward(self, x):
        return self.b(self.a(x))
net = Net()
opt = torch.optim.SGD(net.parameters())
net(torch.ones(2)).sum().backward()
net(torch.ones(2)).sum().backward()
loss = net(torch.ones(2)).sum()
opt.step()
loss.backward()
"""
    (suspicion,) = [each for each in followed(text, "").suspicions.values() if each.rule is CheckRule.STEP]
    assert (suspicion.name.partition("#")[0], suspicion.saved.line) == ("Net", 10)
