"""A small decoder of x-transformers, random weights."""

import torch
from x_transformers import Decoder, TransformerWrapper

torch.manual_seed(0)
m = TransformerWrapper(num_tokens=2000, max_seq_len=128, attn_layers=Decoder(dim=256, depth=4, heads=4))
i = torch.randint(0, 2000, (4, 128))
m(i).square().mean().backward()
