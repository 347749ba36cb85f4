"""Architectures of different kinds train watched and guarded as plain, to the last bit, without a finding."""

from __future__ import annotations

import contextlib
import copy
import random

import numpy as np
import pytest
import torch
from torch import nn

import unclobber

SIZES = {
    "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": 64,
}  # fmt: skip
STATES = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
VISION = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip
CODING = {
    "vocab_size": 64, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
}  # fmt: skip
SPEECH = {
    "vocab_size": 16, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "conv_dim": [16, 16], "conv_stride": [5, 2], "conv_kernel": [10, 3],
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "mask_time_length": 2,
}  # fmt: skip
T5 = {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
      "decoder_start_token_id": 0}  # fmt: skip
EXPERTS = {**SIZES, "num_key_value_heads": 2, "num_local_experts": 4}
MODELS = {
    "llama": ("CausalLM", {**SIZES, "num_key_value_heads": 2}),
    "bert": ("MaskedLM", SIZES),
    "t5": ("Seq2SeqLM", T5),
    "bart": ("Seq2SeqLM", CODING),
    "minimax": ("CausalLM", {**EXPERTS, "head_dim": 8, "block_size": 8}),
    "rwkv": ("CausalLM", {**STATES, "attention_hidden_size": 32, "context_length": 32}),
    "mamba": ("CausalLM", {**STATES, "time_step_rank": 4}),
    "vit": ("ImageClassification", VISION),
    "resnet": ("ImageClassification", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}),
    "wav2vec2": ("CTC", SPEECH),
}
"""By the name of its configuration: what the model is made for, and how it is made small."""


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(64, 16)
        self.lstm = nn.LSTM(16, 16, 2, batch_first=True, bidirectional=True, dropout=0.1)

    def forward(self, input_ids, labels):
        return {"loss": self.lstm(self.embedding(input_ids))[0].square().mean()}


class Graph(nn.Module):
    """Passes messages along edges, and adds them up in place."""

    def __init__(self):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(16, 16), nn.ReLU(inplace=True))
        self.update = nn.GRUCell(16, 16)
        self.state = nn.Parameter(torch.randn(6, 16))

    def forward(self, input_ids, labels):
        state, edges = self.state, torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
        for _ in range(3):
            received = torch.zeros_like(state).index_add_(0, edges[1], self.message(state[edges[0]]))
            state = self.update(received, state)
        return {"loss": state.square().mean()}


def made(name, transformers):
    """Return a model, and what it is called with."""
    tokens = torch.arange(24).reshape(2, 12) % 50 + 3
    if name in OWN:
        return OWN[name](), {"input_ids": tokens, "labels": tokens}
    kind, sizes = MODELS[name]
    config = transformers.AutoConfig.for_model(name, **sizes)
    inputs = {"input_ids": tokens, "labels": tokens}
    if kind == "ImageClassification":
        inputs = {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([0, 1])}
    elif kind == "CTC":
        inputs = {"input_values": torch.randn(2, 1600), "labels": torch.tensor([[1, 2], [2, 3]])}
    return getattr(transformers, f"AutoModelFor{kind}").from_config(config), inputs


OWN = {"lstm": Recurrent, "graph": Graph}


def trained(model, inputs, context):
    """Return what two steps leave: losses, gradients and weights; and the codes of the findings."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    model = copy.deepcopy(model).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    values = []
    with context() as session:
        for _ in range(2):
            optimizer.zero_grad()
            loss = model(**inputs)["loss"]
            loss.backward()
            values += [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
            optimizer.step()
    return [*values, *model.state_dict().values()], [] if session is None else list(session.findings)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*MODELS, *OWN])
def test_two_steps_are_the_same(name, transformers):
    """Losses, gradients, weights and buffers of two steps of AdamW."""
    import transformers

    torch.manual_seed(0)
    model, inputs = made(name, transformers)
    plain, _ = trained(model, inputs, contextlib.nullcontext)
    assert len(plain) > 10
    for context in (unclobber.watch, unclobber.guard):
        values, findings = trained(model, inputs, context)
        assert findings == []
        assert all(map(torch.equal, plain, values))
        assert len(values) == len(plain)
