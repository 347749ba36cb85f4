import torch
from torch import nn


class Gate(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x)
