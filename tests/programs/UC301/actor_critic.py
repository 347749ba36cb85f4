import torch
from torch import nn

torch.manual_seed(0)

actor, critic = nn.Linear(2, 2), nn.Linear(2, 1)
s = torch.randn(4, 2)
a = actor(s).tanh()  # saved
loss_q = critic(a).pow(2).mean()
loss_q.backward()  # freed
loss_a = -critic(a).mean()
loss_a.backward()  # needed
