"""A decoder in the shape of a 7-billion-parameter language model, to be planned with ``--fake``."""

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, LAYERS, HEADS, INNER, WORDS = 4096, 32, 32, 11008, 32000
BATCH, LENGTH = 1, 2048


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(WIDTH, INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        normal = self.norm_1(x)
        q, k, v = (
            layer(normal).view(BATCH, LENGTH, HEADS, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))
        normal = self.norm_2(x)
        return x + self.down(functional.silu(self.gate(normal)) * self.up(normal))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


model = Model().to(torch.bfloat16)
print(f"{sum(parameter.numel() for parameter in model.parameters()) / 1e9:.2f} billion parameters")
tokens = torch.randint(0, WORDS, (BATCH, LENGTH))
functional.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten()).backward()
