# family: saved_modified
# torch: one of the variables needed for gradient computation has been modified by an inplace operation: \[torch\.FloatTensor \[8, 5\]\] is at version \d+; expected version \d+
# counter: moves
# saves: net(static_x)
# fix: feed a clone of the static buffer (or call backward before it is refilled)
# source: https://github.com/pytorch/pytorch/issues/197887

"""Micro-batches are copied into one preallocated input buffer before each forward pass."""
import torch
from torch import nn

torch.manual_seed(0)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))
data = torch.randn(24, 5)
label = data.pow(2).sum(dim=1, keepdim=True)

static_x = torch.empty(8, 5)
total = 0.0
for xb, yb in zip(data.split(8), label.split(8)):
    static_x.copy_(xb)  # write
    total = total + (net(static_x) - yb).pow(2).mean()  # saved
total.backward()  # needed

for name, p in net.named_parameters():
    show(name, p.grad)
