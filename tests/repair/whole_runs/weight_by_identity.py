import torch
from torch import nn

torch.manual_seed(0)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 3), nn.Linear(3, 1)
        self.known, self.same = id(self.inner.weight), []

    def forward(self, x):
        self.same.append(id(self.inner.weight) == self.known)
        return self.outer(torch.tanh(self.inner(x)))


net = Critic()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(5):
    x = torch.randn(4, 3)
    a, b = net(x).mean(), net(x + 1).pow(2).mean()
    optimizer.zero_grad()
    b.backward()
    optimizer.step()
    a.backward()
    print(step, f"{a.item():.6f} {b.item():.6f}")
print(net.same)
