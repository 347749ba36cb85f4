"""B: batch norm that is differentiated twice never reads its running statistics."""

import torch
from observed import observed
from torch import nn


def step(norm, x):
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(norm(x).pow(3).sum(), x, create_graph=True)
    norm(x.detach() + 1)  # updates what the node of the first backward has saved
    gradient.pow(2).sum().backward()
    print(type(norm).__name__, x.grad, norm.running_mean)


for norm, shape in (
    (nn.BatchNorm1d(2), (4, 2)),
    (nn.BatchNorm2d(2), (4, 2, 2, 1)),
    (nn.InstanceNorm2d(2, track_running_stats=True), (2, 2, 2, 2)),
):
    observed(lambda norm=norm, shape=shape: step(norm, torch.rand(shape)))
