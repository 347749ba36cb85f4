import torch
from torch import nn

torch.manual_seed(0)

h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    rows = [h[i] for i in range(3)]  # made
for i, row in enumerate(rows):
    row.mul_(i)  # write
