# theme: past the version counter

import torch

x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
y = x * 1
v = y[:2]
y.mul_(2)
w = v * v  # saved
v.data = torch.tensor([50.0, 50.0])  # write
w.sum().backward()  # needed
gradient = x.grad
