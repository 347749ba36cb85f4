import torch
from torch import nn

torch.manual_seed(0)


def scale_(t, factor):
    return t.mul_(factor)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x):
        probabilities = self.inner(x).softmax(-1)
        boosted = scale_(probabilities, 3.0)
        return boosted, probabilities


net = Policy()
optimizer = torch.optim.RMSprop(net.parameters(), lr=0.01)
for step in range(6):
    boosted, probabilities = net(torch.randn(7, 4))
    loss = -(boosted.log() * torch.randn(7, 3)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.5f} {probabilities.sum(-1).mean().item():.4f}")
