import torch
from torch import nn

torch.manual_seed(0)

class G(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_std = nn.Parameter(torch.zeros(2))  # made
    def forward(self, x):
        self.log_std.clamp_(-5, 2)  # write
        return x * self.log_std.exp()
G()(torch.ones(2))
