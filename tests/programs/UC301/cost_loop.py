import torch
from torch import nn

torch.manual_seed(0)

w = torch.randn(3, requires_grad=True)
loss = w.exp().sum()  # saved
for _ in range(2):
    loss.backward()  # needed freed
