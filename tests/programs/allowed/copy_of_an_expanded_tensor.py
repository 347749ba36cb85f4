# theme: twins of what torch refuses

import torch
from torch import nn

torch.manual_seed(0)

x = torch.ones(1).expand(3).clone()
x.add_(1)
