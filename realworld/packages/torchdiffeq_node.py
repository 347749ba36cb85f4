"""A neural differential equation, solved with an adaptive step and through the adjoint's plain twin."""

import torch
from torch import nn
from torchdiffeq import odeint

PACKAGE = "torchdiffeq"


class Dynamics(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, t, y):
        return self.net(y**3)


def model():
    return Dynamics()


def losses(model):
    path = odeint(model, torch.randn(16, 2), torch.linspace(0, 1, 5), method="dopri5")
    return path[-1].square().mean(), path[1:-1].abs().mean()
