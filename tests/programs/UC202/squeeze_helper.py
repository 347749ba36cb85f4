import torch
from torch import nn

torch.manual_seed(0)

class S:
    def __init__(self, w):
        self.w = w.unsqueeze(0)  # made
    def go(self):
        self.w.add_(1)  # write
S(nn.Parameter(torch.ones(3))).go()
