import torch
from torch import nn

torch.manual_seed(0)

h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    pairs = [(h[i], h[:, i]) for i in range(2)]  # made
for row, column in pairs:
    column.mul_(2)  # write
