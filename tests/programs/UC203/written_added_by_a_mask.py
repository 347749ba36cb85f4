# theme: what is written
# says: `b` is a view of one of several views
# advice: none

import torch
from torch import nn

torch.manual_seed(0)

a, b = (torch.ones(2, requires_grad=True) * 2).unbind()  # made
b = b.view(1)
b[b > 0] += 1  # write
