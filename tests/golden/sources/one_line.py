import torch

t = torch.ones(3, requires_grad=True)
y = (2 * t).exp().mul_(3); y.sum().backward()
