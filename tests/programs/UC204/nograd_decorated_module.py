import torch
from torch import nn

torch.manual_seed(0)

class Head(nn.Module):
    @torch.no_grad()
    def forward(self, t):
        return t.T  # made
head = Head()
h = nn.Linear(2, 4)(torch.randn(3, 2))
v = head(h)
v += 1  # write
