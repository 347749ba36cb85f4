"""A small BERT of transformers, random weights."""

import torch
from transformers import BertConfig, BertForMaskedLM

torch.manual_seed(0)
m = BertForMaskedLM(
    BertConfig(
        num_hidden_layers=4, num_attention_heads=4, hidden_size=256, intermediate_size=1024, vocab_size=2000
    )
)
i = torch.randint(0, 2000, (4, 128))
m(i, labels=i).loss.backward()
