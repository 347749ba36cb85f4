import torch
from torch import nn

torch.manual_seed(0)

h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    lists = [[h.view(-1)], [h.view(-1)]]
row = h
firsts = [row[0] for row in lists]
firsts[1].mul_(2)  # write
