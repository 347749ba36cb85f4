# family: allowed
# counter: moves
# fix: nothing to fix; a linear layer saves its input only if its weight needs a gradient
# source: http://discuss.pytorch.org/t/in-place-operation-and-resnet/10724

"""Activations are overwritten after a frozen projection has read them."""
import torch
from torch import nn

torch.manual_seed(0)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


encoder = nn.Linear(6, 8)
frozen = nn.Linear(8, 4).requires_grad_(False)
x = torch.randn(11, 6)

h = encoder(x)
side = frozen(h)
h *= 0.25  # write
loss = side.pow(2).mean() + h.sum(dim=1).abs().mean()
loss.backward()  # needed

show("encoder.weight", encoder.weight.grad)
show("encoder.bias", encoder.bias.grad)
