"""Variational inference: the evidence lower bound of a regression with a guide of its own parameters."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import Trace_ELBO
from pyro.infer.autoguide import AutoMultivariateNormal
from pyro.nn import PyroModule, PyroSample

PACKAGE = "pyro-ppl"


class Regression(PyroModule):
    def __init__(self):
        super().__init__()
        self.linear = PyroModule[torch.nn.Linear](5, 1)
        self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 5]).to_event(2))

    def forward(self, x, y):
        sigma = pyro.sample("sigma", dist.Uniform(0.1, 2.0))
        mean = self.linear(x).squeeze(-1)
        with pyro.plate("data", len(x)):
            return pyro.sample("y", dist.Normal(mean, sigma), obs=y)


class Inference(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.regression = Regression()
        self.guide = AutoMultivariateNormal(self.regression)

    def forward(self, x, y):
        return Trace_ELBO().differentiable_loss(self.regression, self.guide, x, y)


def model():
    pyro.clear_param_store()
    inference = Inference()
    inference(torch.randn(3, 5), torch.randn(3))  # the guide makes its parameters at its first use
    return inference


def losses(model):
    loss = model(torch.randn(40, 5), torch.randn(40)) / 40
    return loss, loss.square()
