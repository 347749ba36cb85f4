# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
x = leaf()
buffer = torch.zeros(2, 4)
buffer[0] = 2.0
y = x * buffer[0]
buffer.data[1] = 5.0
y.sum().backward()
gradient = x.grad
