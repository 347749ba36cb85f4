"""pyro: the density of a Gaussian scale mixture subtracts in place from what logsumexp keeps."""

import torch
from pyro.distributions import GaussianScaleMixture

scale = torch.ones(2, requires_grad=True)
mixture = GaussianScaleMixture(scale, torch.zeros(3), torch.ones(3))
mixture.log_prob(torch.randn(2)).backward()
