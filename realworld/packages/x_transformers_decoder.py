"""A decoder with rotary positions, gated feed-forwards and residual attention."""

import torch
from x_transformers import Decoder, TransformerWrapper

PACKAGE = "x-transformers"


def model():
    layers = Decoder(dim=64, depth=3, heads=4, rotary_pos_emb=True, ff_glu=True, attn_qk_norm=True)
    return TransformerWrapper(num_tokens=100, max_seq_len=64, attn_layers=layers)


def losses(model):
    tokens = torch.randint(100, (4, 33))
    logits = model(tokens[:, :-1])
    return torch.nn.functional.cross_entropy(logits.mT, tokens[:, 1:]), logits.square().mean()
