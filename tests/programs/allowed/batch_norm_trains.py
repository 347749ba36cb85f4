# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
bn = torch.nn.BatchNorm1d(3)
x = torch.arange(12.0).reshape(4, 3).requires_grad_()
(bn(x) + bn(2 * x)).pow(2).sum().backward()
gradient = x.grad
