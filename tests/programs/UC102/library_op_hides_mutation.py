# family: silent
# counter: stays
# saves: torch.exp(self.lin(x))
# fix: make the kernel functional, as its schema says (or declare Tensor(a!) and call increment_version)
# source: https://github.com/linkedin/Liger-Kernel/issues/272

"""A registered operator normalises rows in its own kernel; its schema declares no mutation."""
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)

lib = torch.library.Library("demo_case", "DEF")
lib.define("row_entropy(Tensor p) -> Tensor")


def row_entropy(p):
    a = p.numpy()
    np.divide(a, a.sum(axis=1, keepdims=True), out=a)  # write
    return torch.from_numpy(-(a * np.log(a)).sum(axis=1))


lib.impl("row_entropy", row_entropy, "CPU")


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 5)

    def forward(self, x):
        weight = torch.exp(self.lin(x))  # saved
        total = weight.sum(dim=1)
        self.entropy = torch.ops.demo_case.row_entropy(weight.detach())
        return total


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


net = Scorer()
x = torch.randn(14, 6)
loss = net(x).log().mean()
loss.backward()  # needed

show("weight", net.lin.weight.grad)
show("bias", net.lin.bias.grad)
