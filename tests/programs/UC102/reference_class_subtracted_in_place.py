# family: silent
# counter: moves
# fix: subtract out of place: the right operand aliases the left one
# source: https://github.com/pytorch/pytorch/issues/135487
# note: partial overlap of input and output is not detected for 2-D strided operands; the first column is zero before the others read it (value depends on the kernel's loop order, stable for 3 columns)

"""Multinomial logit: utilities are measured relative to the first alternative."""
import torch
from torch import nn

torch.manual_seed(0)


def relative(utility):
    utility -= utility[:, :1]  # write needed
    return utility


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


model = nn.Linear(4, 3)
x = torch.randn(40, 4)
choice = torch.randint(0, 3, (40,))
chosen = relative(model(x)).gather(1, choice.unsqueeze(1))
loss = torch.nn.functional.softplus(-chosen).mean()
loss.backward()

show("weight", model.weight.grad)
show("bias", model.bias.grad)
