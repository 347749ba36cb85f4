"""Modules without a fault in any way, of twenty kinds."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Bilinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = nn.Bilinear(4, 4, 3)

    def forward(self, x):
        return self.pair(x, x.sin())


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell = kind(4, 4, batch_first=True)

    def forward(self, x):
        return self.cell(x)[0]


class Tokens(nn.Module):
    def __init__(self, tied=False):
        super().__init__()
        self.embedding = nn.Embedding(9, 8)
        self.head = nn.Linear(8, 9, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.embedding(ids).tanh())


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        query, key, value = self.mix(x).chunk(3, -1)
        return self.out((query @ key.transpose(-1, -2)).softmax(-1) @ value)


class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("angle", torch.arange(4.0))

    def forward(self, x):
        first, second = self.layer(x).chunk(2, -1)
        cos, sin = self.angle.cos(), self.angle.sin()
        return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)


class Buffers(nn.Module):
    """Writes into memory of its own before anything saves it, which is legal."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        out = torch.zeros_like(x)
        out[:, :2] = self.layer(x)[:, :2]
        return out


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 2)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        return sum(weights[:, n : n + 1] * expert(x) for n, expert in enumerate(self.experts))


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x, labels):
        logits = self.layer(x)
        return {"loss": functional.cross_entropy(logits.float(), labels), "logits": logits}


ROWS, WIDE = (8, 4), (2, 5, 8)
MODULES = {
    "linear": (lambda: nn.Linear(4, 2), ROWS),
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)), ROWS),
    "relu": (lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), ROWS),
    "silu": (lambda: nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 2)), ROWS),
    "layer norm": (lambda: nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), ROWS),
    "group norm": (lambda: nn.Sequential(nn.Conv1d(4, 4, 3), nn.GroupNorm(2, 4)), (2, 4, 9)),
    "dropout": (lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh()), ROWS),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2)), (2, 3, 8, 8)),
    "transposed": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 3, 3)), (2, 3, 8, 8)),
    "residual": (lambda: Residual(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())), ROWS),
    "bilinear": (lambda: Bilinear(), ROWS),
    "lstm": (lambda: Recurrent(nn.LSTM), (2, 5, 4)),
    "tokens": (lambda: Tokens(), None),
    "tied tokens": (lambda: Tokens(tied=True), None),
    "attention": (lambda: Attention(), WIDE),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), WIDE),
    "rotary": (lambda: Rotary(), WIDE),
    "own buffers": (lambda: Buffers(), ROWS),
    "experts": (lambda: Experts(), ROWS),
    "own loss": (lambda: Loss(), "labels"),
}
"""For each name a factory, and the shape of the input."""


def made(name):
    """A module and its inputs."""
    torch.manual_seed(0)
    factory, shape = MODULES[name]
    if shape == "labels":
        return factory(), {"x": torch.randn(8, 4), "labels": torch.arange(8) % 3}
    return factory(), torch.arange(8).reshape(2, 4) if shape is None else torch.randn(*shape)
