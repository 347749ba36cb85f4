# theme: what is written
# says: `p[1]` is one of several views
# advice: p[1] = p[1].clamp(0, 1)

import torch
from torch import nn

torch.manual_seed(0)

a, b = (torch.ones(2, requires_grad=True) * 2).unbind()
p = [a, b]
p[1].clamp_(0, 1)  # write
