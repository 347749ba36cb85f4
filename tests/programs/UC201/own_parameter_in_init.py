import torch
from torch import nn

torch.manual_seed(0)

class Scale(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n))  # made
        self.reset()
    def reset(self):
        self.weight.fill_(1.0)  # write
Scale(3)
