import torch
from torch import nn

torch.manual_seed(0)

gen, disc = nn.Linear(2, 2), nn.Linear(2, 1)
fake = gen(torch.randn(4, 2)).tanh()  # saved
d_loss = disc(fake).mean()
d_loss.backward()  # freed
g_loss = -disc(fake).mean()
g_loss.backward()  # needed
