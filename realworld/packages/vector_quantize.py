"""An autoencoder round a codebook that the forward itself updates in place, as a moving average."""

import torch
from torch import nn
from vector_quantize_pytorch import VectorQuantize

PACKAGE = "vector-quantize-pytorch"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 16))
        self.codes = VectorQuantize(dim=16, codebook_size=32, decay=0.9, kmeans_init=True)
        self.decode = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x):
        quantized, _, commitment = self.codes(self.encode(x))
        return self.decode(quantized), commitment


def model():
    return Model()


def losses(model):
    data = torch.randn(8, 20, 32)
    output, commitment = model(data)
    return (output - data).square().mean(), commitment.sum() + output.abs().mean()
