# family: multi_view
# torch: Output 1 of Split\w* is a view and is being modified inplace\. This view is the output of a function that returns multiple views
# counter: moves
# fix: clamp instead of clamp_
# source: https://github.com/toshikwa/gail-airl-ppo.pytorch/issues/13

"""Gaussian policy head: one linear layer gives means and log standard deviations."""
import torch
from torch import nn

torch.manual_seed(0)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 6))

    def forward(self, state):
        mean, log_std = self.net(state).chunk(2, dim=-1)  # made
        log_std.clamp_(-0.3, 0.3)  # write raises
        return torch.distributions.Normal(mean, log_std.exp())


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


policy = Policy()
state, action = torch.randn(10, 4), torch.randn(10, 3)
loss = -policy(state).log_prob(action).mean()
loss.backward()

for name, p in policy.named_parameters():
    show(name, p.grad)
