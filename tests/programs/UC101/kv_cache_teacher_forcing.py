# family: saved_modified
# torch: one of the variables needed for gradient computation has been modified by an inplace operation: \[torch\.FloatTensor \[2, \d+, 8\]\].*is at version \d+; expected version \d+
# vain: disjoint_region
# any: write
# counter: moves
# saves: att @ values[:, :t + 1]
# fix: grow Python lists and stack the prefix; step t+1 writes a position that no earlier step read
# source: https://github.com/pytorch/pytorch/issues/5396

"""Token-by-token attention with preallocated key and value caches, trained end to end."""
import torch
from torch import nn

torch.manual_seed(0)
BATCH, STEPS, DIM = 2, 6, 8


class CachedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(DIM, DIM, bias=False)
        self.wk = nn.Linear(DIM, DIM, bias=False)
        self.wv = nn.Linear(DIM, DIM, bias=False)

    def forward(self, tokens):
        keys = torch.zeros(BATCH, STEPS, DIM)
        values = torch.zeros(BATCH, STEPS, DIM)
        outs = []
        for t in range(STEPS):
            h = tokens[:, t]
            keys[:, t] = self.wk(h)  # write
            values[:, t] = self.wv(h)  # write
            q = self.wq(h)
            scores = q.unsqueeze(1) @ keys[:, :t + 1].transpose(1, 2)  # saved?
            att = torch.softmax(scores / DIM ** 0.5, dim=-1)
            outs.append((att @ values[:, :t + 1]).squeeze(1))  # saved
        return torch.stack(outs, dim=1)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


layer = CachedAttention()
tokens = torch.randn(BATCH, STEPS, DIM)
loss = (layer(tokens) - tokens.roll(-1, 1)).pow(2).mean()
loss.backward()  # needed

for name, p in layer.named_parameters():
    show(name, p.grad)
