# theme: twins of what torch refuses

import torch
from torch import nn

torch.manual_seed(0)

w = torch.ones(3, requires_grad=True)
for _ in range(2):
    w.exp().sum().backward()
