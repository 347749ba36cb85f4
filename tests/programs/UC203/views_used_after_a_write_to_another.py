import torch
from torch import nn

torch.manual_seed(0)

x = torch.ones(2, requires_grad=True).exp()
a, b = x.unbind()  # made
with torch.no_grad():
    a.zero_()  # write
y = b * 2  # needed
