"""A small network whose gates are written out as a formula."""

import torch
from torch import nn

torch.manual_seed(0)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x):
        h = self.up(x)
        share = 1 / (1 + torch.exp(-h))
        return x + self.down(h * share)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.ModuleList(Gate() for _ in range(6))

    def forward(self, x):
        for gate in self.gates:
            x = gate(x)
        return x


Net()(torch.randn(256, 64)).square().mean().backward()
