import torch
from torch import nn

torch.manual_seed(0)

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(6, 18)
    def forward(self, x):
        h = self.qkv(x)
        q, k, v = h.chunk(3, dim=-1)  # made
        h += 1  # write
        return nn.functional.scaled_dot_product_attention(q, k, v)  # needed
Attention()(torch.randn(2, 4, 6))
