# family: multi_view
# torch: Output 1 of Split(Backward0)? is a view and is being modified inplace
# fix: Run the initialization helper under torch.no_grad().
# source: https://github.com/galsang/BiDAF-pytorch/issues/30

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(27)
torch.set_num_threads(1)


def open_forget_gates(lstm, value=1.0):
    """Raises the forget-gate bias of every direction of an LSTM."""
    for name, bias in lstm.named_parameters():
        if not name.startswith("bias_hh"):
            continue
        nn.init.zeros_(bias)
        inp, forget, cell, out = bias.split(lstm.hidden_size)  # made
        forget.fill_(value)  # write raises


class Encoder(nn.Module):
    def __init__(self, d_in, d_h):
        super().__init__()
        self.rnn = nn.LSTM(d_in, d_h, bidirectional=True, batch_first=True)
        for name, p in self.rnn.named_parameters():
            if "weight" in name:
                nn.init.orthogonal_(p)
        open_forget_gates(self.rnn)  # >raises

    def forward(self, x):
        return self.rnn(x)[0]


class SpanReader(nn.Module):
    """Passage/question matching followed by a start-position scorer."""

    def __init__(self, vocab=15, dim=6, hid=4):
        super().__init__()
        self.words = nn.Embedding(vocab, dim)
        self.encode = Encoder(dim, hid)  # >raises
        self.match = nn.Bilinear(2 * hid, 2 * hid, 1, bias=False)
        self.start = nn.Linear(4 * hid, 1, bias=False)

    def affinity(self, p, q):
        n, m = p.size(1), q.size(1)
        left = p.unsqueeze(2).expand(-1, -1, m, -1).contiguous()
        right = q.unsqueeze(1).expand(-1, n, -1, -1).contiguous()
        return self.match(left, right).squeeze(-1)

    def forward(self, passage, question):
        p, q = self.encode(self.words(passage)), self.encode(self.words(question))
        seen = torch.softmax(self.affinity(p, q), dim=2) @ q
        return self.start(torch.cat([p, seen], dim=-1)).squeeze(-1)


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


model = SpanReader()  # >raises
scores = model(torch.randint(0, 15, (2, 6)), torch.randint(0, 15, (2, 3)))
loss = F.cross_entropy(scores, torch.tensor([4, 1]))
loss.backward()
report(model.named_parameters())
