"""timm: the attention of TNT with dropout, in place over the softmax that it follows."""

import torch
from timm.models.tnt import Attention

attention = Attention(8, 8, num_heads=2, attn_drop=0.1)
attention(torch.randn(1, 3, 8)).sum().backward()
