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
        x = x + self.positions(torch.arange(3))
        return x


def require(module, args, output):
    output.requires_grad_(True)


net = Embeddings()
net.words.weight.requires_grad_(False)
net.words.register_forward_hook(require)
net(torch.tensor([[1, 2, 3]])).square().sum().backward()
