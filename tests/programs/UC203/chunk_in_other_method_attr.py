import torch
from torch import nn

torch.manual_seed(0)

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(2, 4)
    def split(self, x):
        self.a, self.b = self.l(x).chunk(2, -1)  # made
    def forward(self, x):
        self.split(x)
        self.a.mul_(2)  # write
M()(torch.randn(3, 2))
