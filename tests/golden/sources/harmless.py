import torch

w = torch.ones(2, 3, requires_grad=True)
a = w * 2
s = (a[0] ** 2).sum()
a[1] = 0
s.backward()
