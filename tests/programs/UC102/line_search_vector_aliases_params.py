# family: silent
# counter: stays
# saves: net(x)
# fix: build a new trial vector; vector_to_parameters aliases the parameters to the vector it is given
# source: https://github.com/pytorch/pytorch/pull/29267
# note: vector_to_parameters makes p.data views of the vector; writing the vector moves only the vector's counter

"""Backtracking line search on a flat parameter vector."""
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

torch.manual_seed(0)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.randn(30, 3)
y = x.sin().sum(dim=1, keepdim=True)

loss = (net(x) - y).pow(2).mean()
loss.backward()
start = parameters_to_vector(net.parameters()).detach()
direction = -parameters_to_vector([p.grad for p in net.parameters()])

trial = start + 2.0 * direction
best = None
for _ in range(4):
    vector_to_parameters(trial, net.parameters())
    net.zero_grad()
    value = (net(x) - y).pow(2).mean()  # saved
    if best is None or value.item() < best.item():
        best = value
    trial.sub_(start).mul_(0.5).add_(start)  # write
best.backward()  # needed

for name, p in net.named_parameters():
    show(name, p.grad)
