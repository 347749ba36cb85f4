"""Gradients inside of what torch traces before dispatch, as `torch.export` does."""

import torch
from observed import observed
from torch.fx.experimental.proxy_tensor import make_fx


def gradient(x):
    return torch.autograd.grad((x * x * x).sum(), x)[0]


class Force(torch.nn.Module):
    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return -torch.autograd.grad((x * x * x).sum(), x)[0]


def step():
    graph = make_fx(gradient, pre_dispatch=True)(torch.ones(2, requires_grad=True))
    print(graph.code, graph(torch.full((2,), 5.0, requires_grad=True)))
    try:
        print(torch.export.export(Force(), (torch.ones(2),), strict=False).module()(torch.full((2,), 5.0)))
    except Exception as error:  # of an older torch
        print(type(error))
    x = torch.ones(2, requires_grad=True)
    x.exp().sum().backward()
    print(x.grad)


observed(step)
