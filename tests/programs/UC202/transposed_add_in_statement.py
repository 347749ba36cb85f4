import torch
from torch import nn

torch.manual_seed(0)

w = nn.Parameter(torch.zeros(3, 2))  # made
w.t().add_(1)  # write
