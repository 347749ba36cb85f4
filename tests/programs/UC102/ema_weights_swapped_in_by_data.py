# family: silent
# counter: stays
# saves: net(x)
# fix: restore the weights before backward; p.data = ... replaces the storage a saved leaf points to without a version bump
# source: https://github.com/pytorch/pytorch/issues/30987

"""Validation with averaged weights happens between the forward pass and backward."""
import torch
from torch import nn

torch.manual_seed(0)


class WeightAverage:
    def __init__(self, net):
        self.shadow = {n: 0.5 * p.detach().clone() for n, p in net.named_parameters()}

    def apply(self, net):
        self.backup = {n: p.data for n, p in net.named_parameters()}
        for n, p in net.named_parameters():
            p.data = self.shadow[n]  # write

    def restore(self, net):
        for n, p in net.named_parameters():
            p.data = self.backup[n]


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


net = nn.Sequential(nn.Conv1d(2, 6, 3), nn.Tanh(), nn.Conv1d(6, 1, 3))
average = WeightAverage(net)
x, x_val = torch.randn(4, 2, 12), torch.randn(4, 2, 12)

loss = net(x).pow(2).mean()  # saved
average.apply(net)
with torch.no_grad():
    val_loss = net(x_val).pow(2).mean()
loss.backward()  # needed
average.restore(net)

for name, p in net.named_parameters():
    show(name, p.grad)
