# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
w = leaf()
x = leaf()
opt = torch.optim.Adam([w], lr=1.0, fused=True)
w.grad = torch.ones(4)
y = w * x  # saved
opt.step()  # write
y.sum().backward()  # needed
gradient = x.grad
