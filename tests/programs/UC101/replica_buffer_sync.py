# family: saved_modified
# torch: modified by an inplace operation: \[torch\.FloatTensor \[1, 6\]\] is at version 2; expected version 1
# vain: yes
# gradient: unaffected
# saves: self.scale (a buffer) in the product
# fix: Multiply by a clone of the buffer (self.scale.clone()) so the wrapper's per-forward buffer broadcast cannot touch the saved tensor.
# source: https://github.com/pytorch/pytorch/issues/22095
# note: The broadcast copies identical values, so the saved buffer's content never changes.

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(12)
torch.set_num_threads(1)


class BufferSync(nn.Module):
    """Stand-in for a data-parallel wrapper: refreshes the module's buffers
    from rank 0's copy before every forward."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        self.rank0 = {k: b.detach().clone() for k, b in module.named_buffers()}

    @torch.no_grad()
    def _sync_buffers(self):
        for name, buf in self.module.named_buffers():
            buf.copy_(self.rank0[name])  # write

    def forward(self, *inputs):
        self._sync_buffers()  # >write
        return self.module(*inputs)  # >saved


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(10, 6)
        self.out = nn.Linear(6, 1)
        self.register_buffer("scale", torch.rand(1, 6) + 0.5)

    def forward(self, x):
        h = torch.tanh(self.lin(x))
        h = h * self.scale  # saved
        return self.out(h)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 10)

    def forward(self, z):
        return torch.tanh(self.fc(z))


def critic_step(D, opt, real, fake):
    score_real = D(real)  # >saved
    score_fake = D(fake)  # >write
    loss = F.softplus(-score_real).mean() + F.softplus(score_fake).mean()
    opt.zero_grad()
    loss.backward()  # needed raises
    opt.step()
    return loss.item()


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


G, D = Generator(), BufferSync(Critic())
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3)
with torch.no_grad():
    fake = G(torch.randn(8, 4))
critic_step(D, opt_d, torch.randn(8, 10), fake)  # >saved >write >raises
report(D.module.named_parameters())
