# family: other
# torch: A saved tensor pack hook is modifying its input in place
# counter: moves
# saves: net(x)
# fix: compute the packed tensor out of place
# source: https://github.com/pytorch/pytorch/pull/62717

"""Activation compression: saved tensors are rounded to a coarse grid."""
import torch
from torch import nn

torch.manual_seed(0)


def pack(t):
    return t.mul_(64).round_().div_(64) if t.is_floating_point() else t  # write


def unpack(t):
    return t


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


net = nn.Sequential(nn.Linear(5, 8), nn.Sigmoid(), nn.Linear(8, 1))
x = torch.randn(12, 5)

with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    loss = net(x).pow(2).mean()  # saved needed
loss.backward()

for name, p in net.named_parameters():
    show(name, p.grad)
