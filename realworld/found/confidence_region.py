"""gpytorch: the confidence region of a distribution doubles its standard deviation in place."""

import torch
from gpytorch.distributions import MultivariateNormal

scale = torch.ones(3, requires_grad=True)
lower, upper = MultivariateNormal(torch.zeros(3), torch.diag(scale)).confidence_region()
upper.sum().backward()
