"""Fit a gated regression."""

import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        gate *= 2  # centre it on one
        return self.head(gate * x)


torch.manual_seed(0)
model = Gated(8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(64, 8), torch.randn(64, 1)
for _ in range(20):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss after 20 steps: {loss.item():.3f}")
