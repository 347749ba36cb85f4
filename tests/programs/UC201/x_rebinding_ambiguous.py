import torch
from torch import nn

torch.manual_seed(0)

x = torch.randn(3, requires_grad=True)
if x.sum() > -100:
    x = torch.ones(3, requires_grad=True)
x.mul_(2)  # write
