import torch
from torch import nn

torch.manual_seed(0)

class Cache:
    def __init__(self, h):
        with torch.no_grad():
            self.window = h.narrow(0, 0, 2)  # made
h = nn.Linear(2, 4)(torch.randn(3, 2))
c = Cache(h)
c.window += 1  # write
