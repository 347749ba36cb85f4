import torch
from torch import nn

torch.manual_seed(0)

drop = nn.Dropout(0.5, inplace=True)
h = nn.Linear(2, 4)(torch.randn(3, 2))
a, b = h.chunk(2, -1)  # made
drop(a)  # write
