"""A step that goes wrong: sigmoid keeps its result for backward, and the next line overwrites it."""

import torch

weight = torch.ones(3, requires_grad=True)
for _ in range(2):
    gate = weight.sigmoid()
    gate[0] = 0.5
    gate.sum().backward()
