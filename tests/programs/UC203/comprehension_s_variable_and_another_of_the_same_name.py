# theme: what is written
# says: `r` is one of several views

import torch
from torch import nn

torch.manual_seed(0)


def halves(h):
    r, other = torch.randn(4, 2, requires_grad=True).mul(2).chunk(2)
    out = [r.clamp_(0) for r in h]  # write made?
    return out, r, other


halves(nn.Linear(2, 2)(torch.randn(3, 2)))
