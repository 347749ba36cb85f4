# family: silent
# counter: stays
# saves: user @ items.weight.t()
# fix: call backward for the first pass before its saved rows are rewritten (.data only silences the check)
# source: https://github.com/meta-pytorch/torchrec/pull/2836

"""Two forward passes over an item table; rows are evicted and re-initialised in between."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def evict(table, rows):
    table.weight.data[rows] = 0.01  # write


def scores(user, items):
    return user @ items.weight.t()  # saved


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


items = nn.Embedding(12, 6)
tower = nn.Linear(5, 6)
first, second = torch.randn(4, 5), torch.randn(4, 5)
label = torch.tensor([1, 4, 7, 10])

loss = F.cross_entropy(scores(tower(first), items), label)
evict(items, torch.tensor([1, 2, 3]))
loss = loss + F.cross_entropy(scores(tower(second), items), label)
loss.backward()  # needed

show("tower.weight", tower.weight.grad)
show("tower.bias", tower.bias.grad)
show("items.weight", items.weight.grad)
