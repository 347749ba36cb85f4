# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
x = leaf()
y = x.exp()
y.data = torch.zeros(4)
y.backward(torch.ones(4))
gradient = x.grad
