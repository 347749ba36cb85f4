"""The training steps that are timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Workload:
    """A training step with the number of rounds and steps per round that give a steady median."""

    name: str
    title: str
    make: Callable[[], Step]
    rounds: int
    steps: int


class Residual(nn.Module):
    """Norm, widen, narrow, add."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(gelu(self.up(self.norm(x))))


class Block(nn.Module):
    """Causal attention, then a residual MLP."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = Residual(width)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        parts = self.qkv(self.norm(x)).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.mlp(x + self.out(mixed.transpose(1, 2).reshape(batch, time, width)))


def conv_net() -> nn.Module:
    """Three convolutions with batch norm and in-place ReLU, then a linear head."""
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 4 * 4, 10))


def step_of(model: nn.Module, inputs: Tensor, optimizer: type[torch.optim.Optimizer]) -> Step:
    """Forward, backward and a step of the optimizer on fixed inputs."""
    made = optimizer(model.parameters(), lr=1e-5)

    def step() -> None:
        model(inputs).square().mean().backward()
        made.step()
        made.zero_grad()

    return step


def small_mlp(optimizer: type[torch.optim.Optimizer]) -> Step:
    return step_of(nn.Sequential(*(Residual(32) for _ in range(8))), torch.randn(16, 32), optimizer)


def transformer() -> Step:
    blocks = nn.Sequential(*(Block(512, 8) for _ in range(4)))
    return step_of(blocks, torch.randn(4, 64, 512), torch.optim.SGD)


def policy() -> Step:
    """REINFORCE: each observation is an array's tensor, which the first layer saves."""
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    observations = torch.randn(16, 8).numpy()

    def step() -> None:
        returns, kept = torch.zeros(16), []
        for t, observation in enumerate(observations):
            chances = net(torch.from_numpy(observation)).log_softmax(-1)
            action = chances.detach().argmax()
            kept.append(chances[action])
            returns[t] = action
        for t in range(14, -1, -1):
            returns[t] += 0.9 * returns[t + 1]
        loss = -(torch.stack(kept) * returns).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


class Recurrent(nn.Module):
    """A GRU and an LSTM cell after one another: torch writes to their gates in place, some twice a step."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.GRU(width, width)
        self.second = nn.LSTMCell(width, width)

    def forward(self, x: Tensor) -> Tensor:
        state = (torch.zeros(x.shape[1:]), torch.zeros(x.shape[1:]))
        for each in self.first(x)[0]:
            state = self.second(each, state)
        return state[0]


WORKLOADS = (
    Workload(
        "mlp-sgd",
        "8 residual blocks, d = 32, batch 16, SGD (bound by overhead)",
        lambda: small_mlp(torch.optim.SGD),
        rounds=75,
        steps=10,
    ),
    Workload(
        "mlp-adamw",
        "8 residual blocks, d = 32, batch 16, AdamW (bound by overhead)",
        lambda: small_mlp(torch.optim.AdamW),
        rounds=60,
        steps=10,
    ),
    Workload("policy", "REINFORCE over 16 observations of NumPy's, an MLP of 32, Adam", policy, 60, 4),
    Workload(
        "recurrent",
        "a GRU and an LSTM cell, d = 32, 20 steps, batch 8, SGD (bound by overhead)",
        lambda: step_of(Recurrent(32), torch.randn(20, 8, 32), torch.optim.SGD),
        rounds=60,
        steps=4,
    ),
    Workload("transformer", "4 transformer blocks, d = 512, batch 4 x 64 tokens, SGD", transformer, 40, 2),
    Workload(
        "conv",
        "3 convolutions with batch norm, 64 pictures of 3 x 32 x 32, SGD",
        lambda: step_of(conv_net(), torch.randn(64, 3, 32, 32), torch.optim.SGD),
        rounds=300,  # a cost of percents needs many
        steps=3,
    ),
)
