# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
net = torch.nn.Linear(4, 4)
x = leaf()
y = net(x * net.weight.sum())
net.double()
net.float()
y.sum().backward()
gradient = x.grad
