# fix: Store the log-probabilities detached: PPO's old policy is a constant of all its updates.
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
actor = nn.Linear(4, 2)
optimizer = torch.optim.SGD(actor.parameters(), 0.1)
states, actions, log_probs = [], [], []
for _ in range(5):
    states.append(torch.randn(4))
    policy = Categorical(logits=actor(states[-1]))
    actions.append(policy.sample())
    log_probs.append(policy.log_prob(actions[-1]))  # saved
old = torch.stack(log_probs)
for _ in range(3):
    new = Categorical(logits=actor(torch.stack(states))).log_prob(torch.stack(actions))
    loss = -(new - old).exp().mean()
    optimizer.zero_grad()
    loss.backward()  # needed freed raises
    optimizer.step()
