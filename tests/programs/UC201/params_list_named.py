import torch
from torch import nn

torch.manual_seed(0)

w = torch.randn(3, requires_grad=True)  # made
b = torch.zeros(1, requires_grad=True)
params = [w, b]
loss = (w.sum() + b).sum()
loss.backward()
for q in params:
    q.sub_(0.1 * q.grad)  # write
