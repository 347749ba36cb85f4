import torch
from torch import nn

torch.manual_seed(0)

w = nn.Parameter(torch.zeros(3, 3))
d = torch.diagonal(w)  # made
d.fill_(1)  # write
