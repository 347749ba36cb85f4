import torch
from torch import nn

torch.manual_seed(0)

@torch.inference_mode()
def embed(net, x):
    return net(x)  # made
net = nn.Linear(2, 3)
w = nn.Parameter(torch.ones(3))
e = embed(net, torch.randn(4, 2))
out = e * w  # saved
