"""A graph convolution network of torch-geometric, random weights."""

import torch
from torch_geometric.nn.models import GCN

torch.manual_seed(0)
m = GCN(64, 256, 4, 16, dropout=0.2)
x = torch.randn(2000, 64)
e = torch.randint(0, 2000, (2, 12000))
m(x, e).square().mean().backward()
