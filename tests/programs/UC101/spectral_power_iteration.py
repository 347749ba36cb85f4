# family: saved_modified
# torch: modified by an inplace operation: \[torch\.FloatTensor \[5\]\].* is at version 2; expected version 1
# gradient: affected
# saves: power-iteration vector self.u used to form sigma
# fix: Clone u and v before the power iteration rewrites them (or rebind new tensors), so the previous forward's saved vectors survive a second forward.
# source: https://github.com/pytorch/pytorch/pull/62293
# note: sigma also saved self.v (second argument), overwritten one line earlier; that would be the next error.

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(18)
torch.set_num_threads(1)


class SpectralLinear(nn.Module):
    def __init__(self, cin, cout, n_iter=1):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cout, cin) * 0.3)
        self.bias = nn.Parameter(torch.zeros(cout))
        self.n_iter = n_iter
        self.register_buffer("u", F.normalize(torch.randn(cout), dim=0))
        self.register_buffer("v", F.normalize(torch.randn(cin), dim=0))

    @torch.no_grad()
    def _power_method(self):
        for _ in range(self.n_iter):
            F.normalize(self.weight.t() @ self.u, dim=0, out=self.v)  # write?
            F.normalize(self.weight @ self.v, dim=0, out=self.u)  # write

    def normalized_weight(self):
        if self.training:
            self._power_method()  # >write
        sigma = torch.dot(self.u, self.weight @ self.v)  # saved
        return self.weight / sigma

    def forward(self, x):
        return F.linear(x, self.normalized_weight(), self.bias)  # >saved >write


class SNDiscriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = SpectralLinear(12, 10)
        self.l2 = SpectralLinear(10, 5)
        self.out = nn.Linear(5, 1)

    def forward(self, x):
        h = F.leaky_relu(self.l1(x), 0.1)
        return self.out(F.leaky_relu(self.l2(h), 0.1))  # >saved >write


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 12)

    def forward(self, z):
        return torch.tanh(self.fc(z))


def hinge_d_loss(D, real, fake):
    out_real = D(real)  # >saved
    out_fake = D(fake.detach())  # >write
    return F.relu(1 - out_real).mean() + F.relu(1 + out_fake).mean()


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


D, G = SNDiscriminator(), Generator()
opt = torch.optim.Adam(D.parameters(), lr=2e-4)
loss = hinge_d_loss(D, torch.randn(6, 12), G(torch.randn(6, 4)))  # >saved >write
opt.zero_grad()
loss.backward()  # needed raises
opt.step()
report(D.named_parameters())
