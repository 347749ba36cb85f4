# family: multi_view
# torch: Output 1 of Split(Backward0)? is a view and is being modified inplace\. This view is the output of a function that returns multiple views
# fix: Clamp out of place (log_sigma = log_sigma.clamp(-5.0, 2.0)).
# source: https://github.com/toshikwa/gail-airl-ppo.pytorch/issues/13

import math
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(24)
torch.set_num_threads(1)


class Body(nn.Module):
    def __init__(self, d_in, d_out, width=16):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(d_in, width), nn.Linear(width, width), nn.Linear(width, d_out)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))


def normal_logpdf(log_sigma, eps):
    return -(0.5 * eps.square() + log_sigma + 0.5 * math.log(2 * math.pi)).sum(-1)


def squashed_sample(mu, log_sigma):
    eps = torch.randn_like(mu)
    raw = mu + eps * log_sigma.exp()
    action = torch.tanh(raw)
    correction = 2 * (math.log(2) - raw - F.softplus(-2 * raw)).sum(-1)
    return action, normal_logpdf(log_sigma, eps) - correction


class SquashedGaussianActor(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.body = Body(obs, 2 * act)

    def forward(self, s):
        mu, log_sigma = self.body(s).chunk(2, dim=-1)  # made
        log_sigma.clamp_(-5.0, 2.0)  # write raises
        return squashed_sample(mu, log_sigma)

    @torch.no_grad()
    def act(self, s):
        return torch.tanh(self.body(s).chunk(2, dim=-1)[0])


class CriticPair(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.left, self.right = Body(obs + act, 1), Body(obs + act, 1)

    def forward(self, s, a):
        sa = torch.cat([s, a], dim=-1)
        return torch.minimum(self.left(sa), self.right(sa)).squeeze(-1)


def improve(actor, critic, states, temperature=0.1):
    action, logp = actor(states)  # >raises
    objective = critic(states, action) - temperature * logp
    (-objective.mean()).backward()


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


actor, critic = SquashedGaussianActor(4, 2), CriticPair(4, 2).requires_grad_(False)
improve(actor, critic, torch.randn(8, 4))  # >raises
report(actor.named_parameters())
