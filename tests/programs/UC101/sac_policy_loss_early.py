# family: saved_modified
# torch: modified by an inplace operation: \[torch\.FloatTensor \[16, 1\]\].* is at version 2; expected version 1
# gradient: affected
# library: yes
# saves: Q-network output-layer weight, saved when the policy loss was evaluated
# fix: Compute the policy loss after both critics have been updated.
# source: https://github.com/toshikwa/soft-actor-critic.pytorch/issues/1

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(3)
torch.set_num_threads(1)
OBS, ACT = 5, 2


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(OBS + ACT, 16)
        self.fc2 = nn.Linear(16, 1)

    def forward(self, s, a):
        h = F.relu(self.fc1(torch.cat([s, a], dim=1)))
        return self.fc2(h)  # saved


class GaussianPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(OBS, 16), nn.ReLU())
        self.mean, self.log_std = nn.Linear(16, ACT), nn.Linear(16, ACT)

    def sample(self, s):
        h = self.trunk(s)
        dist = torch.distributions.Normal(self.mean(h), self.log_std(h).clamp(-5, 2).exp())
        u = dist.rsample()
        a = torch.tanh(u)
        logp = (dist.log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)).sum(1, keepdim=True)
        return a, logp


def update_params(optim, loss):
    optim.zero_grad()
    loss.backward()  # needed raises
    optim.step()  # write


class Agent:
    def __init__(self):
        self.q1, self.q2, self.pi = QNet(), QNet(), GaussianPolicy()
        self.q1_opt = torch.optim.Adam(self.q1.parameters(), lr=3e-4)
        self.q2_opt = torch.optim.Adam(self.q2.parameters(), lr=3e-4)
        self.pi_opt = torch.optim.Adam(self.pi.parameters(), lr=3e-4)
        self.alpha = 0.2

    def critic_losses(self, s, a, r, s2):
        with torch.no_grad():
            a2, logp2 = self.pi.sample(s2)
            target = r + 0.99 * (torch.min(self.q1(s2, a2), self.q2(s2, a2)) - self.alpha * logp2)
        return F.mse_loss(self.q1(s, a), target), F.mse_loss(self.q2(s, a), target)

    def policy_loss(self, s):
        a, logp = self.pi.sample(s)
        q = torch.min(self.q1(s, a), self.q2(s, a))  # >saved
        return (self.alpha * logp - q).mean()

    def learn(self, batch):
        q1_loss, q2_loss = self.critic_losses(*batch)
        pi_loss = self.policy_loss(batch[0])  # >saved
        update_params(self.q1_opt, q1_loss)
        update_params(self.q2_opt, q2_loss)  # >write
        update_params(self.pi_opt, pi_loss)  # >raises


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


agent = Agent()
agent.learn((torch.randn(8, OBS), torch.rand(8, ACT) * 2 - 1, torch.randn(8, 1), torch.randn(8, OBS)))  # >saved >write >raises
for tag in ("q1", "q2", "pi"):
    report(getattr(agent, tag).named_parameters(prefix=tag))
