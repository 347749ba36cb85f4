"""An exact Gaussian process of gpytorch."""

import gpytorch
import torch

torch.manual_seed(0)


class Process(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


x = torch.linspace(0, 1, 500)
y = torch.sin(6 * x)
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Process(x, y, likelihood).train()
marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
(-marginal(model(x), y)).backward()
