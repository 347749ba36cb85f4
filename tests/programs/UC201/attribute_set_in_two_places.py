import torch
from torch import nn

torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2))
    def grow(self):
        self.w = nn.Parameter(torch.zeros(3))
net = Net()
net.grow()
net.w.add_(1)  # write
