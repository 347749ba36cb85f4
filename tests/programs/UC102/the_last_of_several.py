# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
x = leaf()
b = torch.ones(4)
y = x * b[:2].repeat(2) * b  # saved
b.data.resize_(4)
b.data.set_(torch.zeros(4))
b.data.fill_(3)  # write
y.sum().backward()  # needed
gradient = x.grad
