import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.second(self.inner(self.first(x))).pow(2) * torch.arange(4.0)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(8, 4, requires_grad=True)
    net.first.eval()
    loss = net(x).mean()
    net.first.running_mean.mul_(0.9)
    net.first.running_var.mul_(0.9).add_(0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.6f}")
net.eval()
print(int(net.second.num_batches_tracked), f"{net(torch.ones(1, 4)).sum().item():.6f}")
