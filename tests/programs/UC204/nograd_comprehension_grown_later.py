import torch
from torch import nn

torch.manual_seed(0)

h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    rows = [h[i] for i in range(2)]
    rows.append(h.view(-1))
rows[2].mul_(2)  # write
