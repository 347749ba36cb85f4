"""Which attribute ties a backward to an earlier graph: no other one is named."""

from __future__ import annotations

import pytest
from refused_programs import HEAD, run_watched

LSTM = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.hidden = nn.LSTM(3, 4), None
    def forward(self, x):
        out, self.hidden = self.lstm(x, self.hidden)
        return out.sum()
"""

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
    "two of them": (
        "`net.h` and `net.c` tie",
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
    # cut
    net(x).backward()
""",
    ),
    "one of two, the other is cut already": (
        "`net.h` ties",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.h, self.c = nn.LSTMCell(3, 4), torch.zeros(2, 4), torch.zeros(2, 4)
    def forward(self, x):
        self.h, self.c = self.cell(x, (self.h, self.c.detach()))
        return self.h.sum()
net = Net()
for x in torch.randn(2, 2, 3):
    # cut
    net(x).backward()
""",
    ),
    "an LSTM's state on its module": (
        "`net.hidden` ties",
        LSTM
        + """
net = Net()
for x in torch.randn(2, 5, 1, 3):
    # cut
    net(x).backward()
""",
    ),
    "an LSTM's state, two such modules": (
        "LSTM (its mkldnn_rnn_layer) is part of",
        LSTM
        + """
net, other = Net(), Net()
for x in torch.randn(2, 5, 1, 3):
    (net(x) + other(x)).backward()
""",
    ),
    "an LSTM's state in a variable": (
        "`state` ties",
        """
lstm, state = nn.LSTM(3, 4), None
for x in torch.randn(2, 5, 1, 3):
    # cut unless it is None
    out, state = lstm(x, state)
    out.sum().backward()
""",
    ),
    "a cell's state, handed out by a module": (
        "`state` ties",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)
    def forward(self, x, before):
        h, c = self.cell(x, before)
        return h.sum(), (h, c)
net, state = Net(), (torch.zeros(2, 4), torch.zeros(2, 4))
for x in torch.randn(2, 2, 3):
    # cut
    loss, state = net(x, state)
    loss.backward()
""",
    ),
    "an input that was computed once": (
        "Linear (its addmm) is part of",
        LSTM
        + """
net, first = Net(), nn.Linear(3, 3)
x = first(torch.randn(5, 1, 3))
for _ in range(2):
    net.hidden = None
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


@pytest.mark.parametrize("name", [name for name, (_, body) in TIES.items() if "# cut" in body])
def test_the_line_that_is_told_cuts_it(name, tmp_path):
    """Where an iteration begins, it lets the program run to its end."""
    body = TIES[name][1]
    error = run_watched(HEAD + body, tmp_path)
    (code,) = (fix.code for fix in error.finding.fixes if fix.code)
    held = code.partition(" = ")[0].split(", ")[-1]
    cut = body.replace("# cut", f"if {held} is not None: {code}  #")
    assert run_watched(HEAD + cut, tmp_path) is None
