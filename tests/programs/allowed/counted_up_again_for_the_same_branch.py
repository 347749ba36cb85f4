# theme: recomputation

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
from torch.utils.checkpoint import checkpoint
x = leaf()
class Warm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
    def forward(self, t):
        self.calls += 1
        t = t.tanh()
        return (t * 0.5).sin() if self.calls < 100 else t
y = checkpoint(Warm(), x, use_reentrant=False)
y.sum().backward()
gradient = x.grad
