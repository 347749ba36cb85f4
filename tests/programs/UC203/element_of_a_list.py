import torch
from torch import nn

torch.manual_seed(0)

moments = list((torch.ones(2, requires_grad=True) * 2).unbind())
moments[1].clamp_(-1, 1)  # write
