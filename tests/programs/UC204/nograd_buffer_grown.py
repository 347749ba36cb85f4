import torch
from torch import nn

torch.manual_seed(0)

buf = torch.zeros(4, 3)
with torch.no_grad():
    slot = buf[1]  # made
w = torch.ones(3, requires_grad=True)
slot.copy_(w * 2)  # write
