# family: saved_modified
# torch: modified by an inplace operation: .*which is output 0 of LeakyRelu(Backward)?1, is at version 2; expected version 1
# gradient: unaffected
# library: yes
# saves: output of LeakyReLU(inplace=True) inside self.trunk
# fix: Drop inplace=True from the Dropout that follows an activation whose backward uses its output.
# source: https://github.com/dreamgonfly/GAN-tutorial/issues/1
# note: Kept units keep their sign and dropped units get zero gradient anyway, so ignoring the check would give the same gradients; autograd cannot know that.

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(6)
torch.set_num_threads(1)


class Generator(nn.Module):
    def __init__(self, z_dim=10, out=36):
        super().__init__()
        self.fc1 = nn.Linear(z_dim, 24)
        self.fc2 = nn.Linear(24, out)

    def forward(self, z):
        return torch.tanh(self.fc2(F.leaky_relu(self.fc1(z), 0.2)))


class Discriminator(nn.Module):
    def __init__(self, d_in=36):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(d_in, 32),
            nn.LeakyReLU(0.2, inplace=True),  # saved?
            nn.Dropout(0.3, inplace=True),  # write?
            nn.Linear(32, 16),
            nn.LeakyReLU(0.2, inplace=True),  # saved?
            nn.Dropout(0.3, inplace=True),  # write?
        )
        self.out = nn.Linear(16, 1)

    def forward(self, img):
        h = self.trunk(img.flatten(1))  # saved write
        return torch.sigmoid(self.out(h))


def discriminator_step(D, G, opt, real, z):
    y_real = torch.ones(real.size(0), 1)
    y_fake = torch.zeros(real.size(0), 1)
    with torch.no_grad():
        fake = G(z)
    d_loss = F.binary_cross_entropy(D(real), y_real) + F.binary_cross_entropy(D(fake), y_fake)  # >saved >write
    opt.zero_grad()
    d_loss.backward()  # needed raises
    opt.step()
    return d_loss


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


G, D = Generator(), Discriminator()
opt_d = torch.optim.SGD(D.parameters(), lr=0.1)
discriminator_step(D, G, opt_d, torch.rand(5, 1, 6, 6), torch.randn(5, 10))  # >saved >write >raises
report(D.named_parameters())
