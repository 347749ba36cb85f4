# theme: twins of what torch refuses

import torch
from torch import nn

torch.manual_seed(0)

h = torch.ones(2, 2, requires_grad=True) * 1
h[0].mul_(2)
