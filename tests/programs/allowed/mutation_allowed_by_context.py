# family: allowed
# counter: moves
# saves: h.pow(2)
# fix: nothing to fix; the context clones a saved tensor before the first write to it
# source: https://github.com/pytorch/pytorch/pull/79056

"""Saved tensors are overwritten inside allow_mutation_on_saved_tensors."""
import torch
from torch import nn

torch.manual_seed(0)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


layer = nn.Linear(5, 6)
x = torch.randn(9, 5)
with torch.autograd.graph.allow_mutation_on_saved_tensors():
    h = layer(x)
    energy = h.pow(2).sum()  # saved
    gate = h.sigmoid()
    h.mul_(0.5)  # write
    gate.clamp_(0.3, 0.7)  # write
    loss = energy + (gate * h).sum()
    loss.backward()  # needed

show("weight", layer.weight.grad)
show("bias", layer.bias.grad)
