# theme: what is written
# says: `x` is one of several views
# advice: x.clamp(0)

import torch
from torch import nn

torch.manual_seed(0)

a, b = (torch.ones(2, requires_grad=True) * 2).unbind()
c = [x.clamp_(0) for x in (a, b)]  # write
