"""A plain training step."""

import torch
from observed import observed

weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
observed(lambda: weight.exp().sum().backward())
print(weight.grad)
