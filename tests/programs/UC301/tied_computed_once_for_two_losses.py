# theme: what ties
# open: saved needed freed
# says: `net.fake` ties

import torch
from torch import nn

torch.manual_seed(0)

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
