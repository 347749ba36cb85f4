import torch
from torch import nn

torch.manual_seed(0)

mask = torch.zeros(1, 3).expand(4, 3)  # made
mask.add_(1)  # write
