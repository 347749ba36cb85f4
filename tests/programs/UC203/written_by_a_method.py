# theme: what is written
# says: `c` is one of several views
# advice: none

import torch
from torch import nn

torch.manual_seed(0)

a, b = (torch.ones(2, requires_grad=True) * 2).unbind()  # made
for c in (a, b):
    c.exp_()  # write
