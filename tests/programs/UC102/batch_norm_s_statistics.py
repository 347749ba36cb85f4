# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
import torch.nn as nn
bn = nn.BatchNorm1d(3)
x = torch.arange(12.0).reshape(4, 3)
w = torch.ones(4, 3, requires_grad=True)
bn.eval()
loss = bn(x * w).sum()  # saved
bn.train()
bn(2 * x)  # write
bn.eval()
loss.backward()  # needed
gradient = w.grad
