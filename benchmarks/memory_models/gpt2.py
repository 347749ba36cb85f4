"""A small GPT-2 of transformers, random weights."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
m = GPT2LMHeadModel(GPT2Config(n_layer=4, n_head=4, n_embd=256, vocab_size=2000))
i = torch.randint(0, 2000, (4, 128))
m(i, labels=i, use_cache=False).loss.backward()
