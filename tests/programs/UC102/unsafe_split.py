# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
x = leaf()
y = x.exp()  # saved
a, b = y.unsafe_split(2)
with torch.no_grad():
    b.zero_()  # write
y.sum().backward()  # needed
gradient = x.grad
