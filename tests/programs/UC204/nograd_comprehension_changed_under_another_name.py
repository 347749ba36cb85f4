import torch
from torch import nn

torch.manual_seed(0)

h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    rows = [h[i] for i in range(2)]
    same = rows
    same[1] = h.view(-1)
rows[1].mul_(2)  # write
