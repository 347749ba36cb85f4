import torch
from torch import nn

torch.manual_seed(0)

x = torch.randn(2, 2, requires_grad=True)
flat = x.view(-1)  # made
flat[1] = 3.  # write
