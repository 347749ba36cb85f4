# theme: what is written
# says: `x` is one of several views
# advice: none

import torch
from torch import nn

torch.manual_seed(0)


def scale_(x, factor):
    x.mul_(factor)  # write
    return x


mean, deviation = nn.Linear(3, 4)(torch.ones(2, 3)).chunk(2, dim=-1)  # made
scale_(mean, 0.5)
print((mean + deviation).sum())
