"""Graph attention on a random graph."""

import torch
from torch_geometric.nn.models import GAT

PACKAGE = "torch-geometric"


def model():
    return GAT(
        in_channels=16, hidden_channels=32, num_layers=3, out_channels=4, heads=2, dropout=0.2, norm="batch"
    )


def losses(model):
    nodes, edges = torch.randn(100, 16), torch.randint(100, (2, 400))
    scores = model(nodes, edges)
    return torch.nn.functional.cross_entropy(scores, torch.randint(4, (100,))), scores.square().mean()
