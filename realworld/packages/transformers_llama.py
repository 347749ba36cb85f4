"""A decoder with rotary embeddings and grouped-query attention."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

PACKAGE = "transformers"


def model():
    config = LlamaConfig(
        vocab_size=100,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return LlamaForCausalLM(config)


def losses(model):
    tokens = torch.randint(100, (4, 32))
    output = model(input_ids=tokens, labels=tokens)
    return output.loss, output.logits.square().mean()
