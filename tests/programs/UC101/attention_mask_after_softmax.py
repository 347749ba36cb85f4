# family: saved_modified
# torch: one of the variables needed for gradient computation has been modified by an inplace operation: \[torch\.FloatTensor \[2, 2, 5, 5\]\], which is output 0 of Softmax.*is at version 1; expected version 0
# counter: moves
# saves: scores.softmax(dim=-1)
# fix: masked_fill instead of masked_fill_; unlike sigmoid, softmax's backward needs the old values of masked entries too
# source: https://discuss.pytorch.org/t/when-would-the-error-one-of-the-variables-needed-for-gradient-computation-has-been-modified-occur/11976/2

"""Multi-head attention that zeroes padded keys in the probabilities."""
import torch
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, pad):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5
        probs = scores.softmax(dim=-1)  # saved
        probs.masked_fill_(pad[:, None, None, :], 0.0)  # write
        y = (probs @ v).transpose(1, 2).reshape(b, t, d)
        return self.out(y)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


layer = Attention(8, 2)
x = torch.randn(2, 5, 8)
pad = torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 1, 1]], dtype=torch.bool)
loss = layer(x, pad).pow(2).mean()
loss.backward()  # needed

for name, p in layer.named_parameters():
    show(name, p.grad)
