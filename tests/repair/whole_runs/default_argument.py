import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 1)
        self.probes = {}

    def forward(self, x):
        p = self.inner(x).sigmoid()
        self.probes[len(self.probes)] = lambda p=p: p.sum().item()
        p -= 0.5
        return self.outer(p)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    loss = net(torch.randn(6, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.6f}")
print([round(probe(), 5) for probe in net.probes.values()])
