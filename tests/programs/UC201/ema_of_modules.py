import torch
from torch import nn

torch.manual_seed(0)

def update(target, source, tau):
    for t, s in zip(target.parameters(), source.parameters()):
        t.mul_(1 - tau).add_(tau * s)  # write
class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 1)  # made
update(Q(), Q(), 0.1)
