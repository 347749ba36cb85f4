import torch
from torch import nn

torch.manual_seed(0)

w = torch.randn(3, requires_grad=True)
scale = w * w  # saved
for i in range(2):
    loss = (scale * i).sum()
    loss.backward()  # needed freed
