# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
x = leaf()
(torch.nn.functional.rrelu(-x, training=True)).pow(2).sum().backward()
gradient = x.grad
