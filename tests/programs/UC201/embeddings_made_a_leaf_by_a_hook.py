# source: transformers' BLIP (modeling_blip_text.py:85) after enable_input_require_grads()
import torch
from torch import nn

torch.manual_seed(0)


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(5, 4)
        self.positions = nn.Embedding(3, 4)

    def forward(self, ids):
        x = self.words(ids)
        x += self.positions(torch.arange(3))  # write
        return x


def require(module, args, output):
    output.requires_grad_(True)  # made


net = Embeddings()
net.words.weight.requires_grad_(False)
net.words.register_forward_hook(require)
net(torch.tensor([[1, 2, 3]])).square().sum().backward()
