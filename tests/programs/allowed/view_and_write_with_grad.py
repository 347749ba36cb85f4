# theme: twins of what torch refuses

import torch
from torch import nn

torch.manual_seed(0)

h = torch.ones(4, requires_grad=True) * 1
v = h[1:]
v.mul_(2)
