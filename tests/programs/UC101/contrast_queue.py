# family: saved_modified
# torch: one of the variables needed for gradient computation has been modified by an inplace operation: \[torch\.FloatTensor \[1, 6, 12\]\] is at version 1; expected version 0
# counter: moves
# saves: torch.einsum("nc,ck->nk", [q, self.queue.detach()])
# fix: clone the queue before the logits are computed with it
# source: https://github.com/facebookresearch/moco/blob/main/moco/builder.py (which clones it)

"""A queue of keys is overwritten after the logits were computed with it, without a copy."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Contrast(nn.Module):
    def __init__(self, dim=6, size=12):
        super().__init__()
        self.encoder, self.teacher = nn.Linear(5, dim), nn.Linear(5, dim)
        self.register_buffer("queue", F.normalize(torch.randn(dim, size), dim=0))
        self.start = 0

    @torch.no_grad()
    def enqueue(self, keys):
        self.queue[:, self.start : self.start + len(keys)] = keys.T  # write
        self.start = (self.start + len(keys)) % self.queue.shape[1]

    def forward(self, x, y):
        q = F.normalize(self.encoder(x), dim=1)
        with torch.no_grad():
            k = F.normalize(self.teacher(y), dim=1)
        near = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        far = torch.einsum("nc,ck->nk", [q, self.queue.detach()])  # saved
        self.enqueue(k)
        return torch.cat([near, far], dim=1) / 0.07


model = Contrast()
x = torch.randn(4, 5)
logits = model(x, x + 0.1)
F.cross_entropy(logits, torch.zeros(4, dtype=torch.long)).backward()  # needed

for name, p in model.encoder.named_parameters():
    print(f"{name} {p.grad.sum().item():.6g} {p.grad.abs().sum().item():.6g}")
