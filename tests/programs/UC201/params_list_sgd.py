import torch
from torch import nn

torch.manual_seed(0)

w = torch.randn(3, requires_grad=True)  # made
b = torch.zeros(1, requires_grad=True)
loss = (w.sum() + b).sum()
loss.backward()
for q in [w, b]:
    q -= 0.1 * q.grad  # write
