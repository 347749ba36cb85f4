import torch
from torch import nn

torch.manual_seed(0)

x = torch.arange(5.)
x[1:] += x[:-1]  # write
