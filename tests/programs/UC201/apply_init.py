import torch
from torch import nn

torch.manual_seed(0)

def reset(m):
    if isinstance(m, nn.Linear):
        m.weight.normal_(0, 0.1)  # write
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))  # made
net.apply(reset)
