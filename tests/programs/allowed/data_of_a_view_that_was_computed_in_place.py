# theme: past the version counter

import torch

x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
y = x * 1
v = y[:2]
v.exp_()  # saves its result apart from `v`
v.data = torch.tensor([50.0, 50.0])
y.sum().backward()
gradient = x.grad
