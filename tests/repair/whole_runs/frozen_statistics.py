import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 1)
        self.first, self.second = nn.BatchNorm1d(4), nn.BatchNorm1d(4)

    def forward(self, x):
        return self.outer(self.second(torch.tanh(self.first(self.inner(x)))))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(8, 4)
    net.first.eval()
    frozen = net(x)
    net.first.train()
    warm = net(x + 1)
    loss = (frozen - warm).pow(2).mean() + frozen.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.6f}")
net.eval()
print(f"{net(torch.ones(2, 4)).sum().item():.6f} {net.second.running_mean.sum().item():.6f}")
