# theme: recomputation

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
from torch.utils.checkpoint import checkpoint
x = leaf()
class Watched(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
    def forward(self, t):
        with torch.no_grad():
            self.seen.copy_(0.9 * self.seen + 0.1 * t)
        return t.tanh().sin()
y = checkpoint(Watched(), x, use_reentrant=False)
y.sum().backward()
gradient = x.grad
