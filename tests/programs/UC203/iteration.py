import torch
from torch import nn

torch.manual_seed(0)

def norm(h):
    for i, row in enumerate(h):  # made
        row /= row.norm()  # write
    return h
norm(nn.Linear(2, 2)(torch.randn(3, 2)))
