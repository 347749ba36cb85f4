"""Exact Gaussian-process regression: Cholesky factors, lazily evaluated kernels, constrained parameters."""

import gpytorch
import torch

PACKAGE = "gpytorch"


class Model(gpytorch.models.ExactGP):
    def __init__(self):
        inputs = torch.linspace(0, 1, 60).unsqueeze(1)
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        super().__init__(inputs, torch.sin(6 * inputs.squeeze(1)), likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def model():
    return Model()


def losses(model):
    likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    output = model(*model.train_inputs)
    loss = -likelihood(output, model.train_targets)
    return loss, loss.square() + output.variance.mean()
