import torch
from torch import nn

critic = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
actor = nn.Linear(4, 8)
opt_a = torch.optim.SGD(actor.parameters(), lr=0.1)
opt_d = torch.optim.SGD(critic.parameters(), lr=0.1)

noise = torch.randn(32, 4)
score = critic(actor(noise))
loss_a = -score.mean()
loss_d = score.pow(2).mean()

loss_d.backward(retain_graph=True)
opt_d.step()
loss_a.backward()
opt_a.step()
