import torch
from torch import nn

torch.manual_seed(0)

w = torch.randn(3, requires_grad=True)
scaled = 0.5 * w  # saved
for step in range(2):
    loss = (scaled + step).sum()
    loss.backward()  # needed freed
