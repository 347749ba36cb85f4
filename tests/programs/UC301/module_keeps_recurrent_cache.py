# family: double_backward
# torch: Trying to backward through the graph a second time
# counter: moves
# saves: h = self.decay * h + self.inp(x[:, t])
# fix: store the state detached (or clear it between independent forwards)
# source: https://github.com/huggingface/transformers/pull/43203

"""A linear recurrent block that stores its last state on the module."""
import torch
from torch import nn

torch.manual_seed(0)


class LinearRecurrence(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.inp = nn.Linear(dim, dim)
        self.decay = nn.Parameter(torch.full((dim,), 0.8))
        self.state = None

    def forward(self, x):
        h = torch.zeros(x.shape[0], x.shape[2]) if self.state is None else self.state
        outs = []
        for t in range(x.shape[1]):
            h = self.decay * h + self.inp(x[:, t])  # saved
            outs.append(h)
        self.state = h
        return torch.stack(outs, dim=1)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


block = LinearRecurrence(5)
for seed in range(2):
    x = torch.randn(3, 6, 5)
    loss = (block(x) - x.roll(1, 1)).pow(2).mean()
    loss.backward()  # needed freed

for name, p in block.named_parameters():
    show(name, p.grad)
