# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
import torch.nn as nn
net = nn.Sequential(nn.Conv1d(3, 3, 1), nn.GroupNorm(3, 3), nn.LayerNorm(4))
x = torch.arange(12.0).reshape(1, 3, 4)
y = net[0](x) + net[1](x).detach() + net[2](x)
for p in net[0].weight, net[2].weight:
    p.data.zero_()
y.sum().backward()
gradient = net[0].weight.grad
