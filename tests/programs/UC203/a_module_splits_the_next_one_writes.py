import torch
from torch import nn

torch.manual_seed(0)

class Half(nn.Module):
    def forward(self, x):
        return x.chunk(2, 1)[0]
net = nn.Sequential(nn.Linear(3, 4), Half(), nn.ReLU(inplace=True))
net(torch.randn(2, 3))  # write
