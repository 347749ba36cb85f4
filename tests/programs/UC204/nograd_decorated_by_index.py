import torch
from torch import nn

torch.manual_seed(0)

@torch.no_grad()
def first(rows):
    return rows[0]  # made
h = nn.Linear(2, 4)(torch.randn(3, 2))
v = first(h)
v.zero_()  # write
