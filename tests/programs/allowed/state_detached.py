# theme: twins of what torch refuses

import torch
from torch import nn

torch.manual_seed(0)

w = torch.ones(3, requires_grad=True)
h = torch.zeros(3)
for _ in range(2):
    h = torch.tanh(w * h.detach() + 1)
    h.sum().backward()
