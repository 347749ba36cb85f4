# family: saved_modified
# torch: one of the variables needed for gradient computation has been modified by an inplace operation: \[torch\.FloatTensor \[16, 1\]\], which is output 0 of AsStrided.*is at version 2; expected version 1
# counter: moves
# saves: D(fake)
# fix: run both backward passes before any optimizer.step() (g_loss only into G's parameters)
# source: https://github.com/1Konny/FactorVAE/issues/15

"""One GAN iteration: both losses are computed first, then both optimizers step."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
D = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.SGD(G.parameters(), lr=0.05)
opt_d = torch.optim.SGD(D.parameters(), lr=0.05)
real, noise = torch.randn(32, 8), torch.randn(32, 4)
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)

fake = G(noise)
score = D(fake)  # saved
d_loss = (F.binary_cross_entropy_with_logits(D(real), ones)
          + F.binary_cross_entropy_with_logits(D(fake.detach()), zeros))
g_loss = F.binary_cross_entropy_with_logits(score, ones)

opt_d.zero_grad()
d_loss.backward()
opt_d.step()  # write

opt_g.zero_grad()
g_loss.backward()  # needed
opt_g.step()

for name, p in G.named_parameters():
    show("G." + name, p.grad)
