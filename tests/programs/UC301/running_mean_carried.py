import torch
from torch import nn

torch.manual_seed(0)

lin = nn.Linear(2, 2)
mean = torch.zeros(2)
for _ in range(3):
    out = lin(torch.randn(4, 2))  # saved
    mean = 0.9 * mean + 0.1 * out.mean(0)
    loss = (out - mean).pow(2).sum()
    loss.backward()  # needed freed
