# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
w = leaf()
x = leaf()
y = w * x  # saved
before = w.detach()
w.data = torch.zeros(4)  # write
before.data.fill_(7)
y.sum().backward()  # needed
gradient = x.grad
