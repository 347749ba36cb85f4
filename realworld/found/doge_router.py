"""transformers: the router of a Doge mixture of experts with `norm_topk_prob=True`."""

import torch
from transformers import DogeConfig
from transformers.models.doge.modeling_doge import DogeCDMoE

experts = {"num_experts": 16, "num_experts_per_tok": 2, "norm_topk_prob": True}
config = DogeConfig(hidden_size=8, intermediate_size=8, **experts)
moe = DogeCDMoE(config)
hidden, _ = moe(torch.randn(1, 3, 8))
hidden.sum().backward()
