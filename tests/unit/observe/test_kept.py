"""Which attribute ties a backward to an earlier graph: no other one is named."""

from __future__ import annotations

import pytest
from refused_programs import HEAD, run_watched

TIES = {
    "computed once for two losses": (
        "`net.fake` ties",
        """
class Gan:
    def __init__(self):
        self.g, self.d = nn.Linear(3, 4), nn.Linear(4, 1)
    def step(self, x):
        self.fake = self.g(x).tanh()
        self.loss_d = self.d(self.fake).square().mean()
        self.loss_d.backward()
        self.gap = self.fake.abs().mean()
        self.loss_g = self.d(self.fake).mean() + self.gap
        self.loss_g.backward()
net = Gan()
net.step(torch.randn(5, 3))
""",
    ),
    "carried from step to step": (
        "`net.state` ties",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.state = nn.GRUCell(3, 4), torch.zeros(2, 4)
    def forward(self, x):
        self.state = self.cell(x, self.state)
        return self.state.sum()
net = Net()
for x in torch.randn(2, 2, 3):
    net(x).backward()
""",
    ),
    "the loss itself is none": (
        "`h` ties",
        """
class Trainer:
    def fit(self, cell, xs):
        h = torch.zeros(2, 4)
        for x in xs:
            h = cell(x, h)
            self.loss = h.square().mean()
            self.loss.backward()
trainer = Trainer()
trainer.fit(nn.GRUCell(3, 4), torch.randn(2, 2, 3))
""",
    ),
    "what nobody reads again is none": (
        "`memory` ties",
        """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.last = nn.Linear(3, 3), None
    def forward(self, x, memory):
        p = (self.q(x) @ memory.T).softmax(-1)
        self.last = p
        return x + p @ memory
def run(net, chunks):
    memory = chunks[0]
    for x in chunks[1:]:
        out = net(x, memory)
        out.square().mean().backward()
        memory = torch.cat([memory, out])[-4:]
net = Attention()
run(net, torch.randn(4, 4, 3))
""",
    ),
    "two of them are not one": (
        "LSTMCell (its mul) is part of",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.h, self.c = nn.LSTMCell(3, 4), torch.zeros(2, 4), torch.zeros(2, 4)
    def forward(self, x):
        self.h, self.c = self.cell(x, (self.h, self.c))
        return self.h.sum()
net = Net()
for x in torch.randn(2, 2, 3):
    net(x).backward()
""",
    ),
}


@pytest.mark.parametrize(("words", "body"), TIES.values(), ids=TIES)
def test_what_ties(words, body, tmp_path):
    """By the attribute's name, by a variable's, or by the operation alone."""
    error = run_watched(HEAD + body, tmp_path)
    assert error is not None
    assert error.finding.code == "UC301"
    assert error.finding.message.startswith(words)
