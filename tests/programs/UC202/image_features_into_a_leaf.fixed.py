# source: vision-language models that write image features into embeddings which a hook made a leaf
import torch
from torch import nn

torch.manual_seed(0)
words, project = nn.Embedding(5, 4).requires_grad_(False), nn.Linear(4, 4)


def require(module, args, output):
    output.requires_grad_(True)


words.register_forward_hook(require)
embeds = words(torch.arange(3))
embeds = embeds.clone()
embeds[1:] = project(torch.ones(2, 4))
embeds.square().sum().backward()
