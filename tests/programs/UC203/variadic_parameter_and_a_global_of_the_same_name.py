# says: `views[0]` is one of several views that `unbind`, or a loop over a tensor,

import torch
from torch import nn

torch.manual_seed(0)

h = nn.Linear(3, 2)(torch.randn(4, 3))
views = h.chunk(2)


def halve(*views):
    views[0].mul_(0.5)  # write


halve(*h.unbind(0))
