import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.penalty = 0.0

    def project(self, step):
        with torch.no_grad():
            self.weight.clamp_(-1, 1)
        if step >= 5:
            self.penalty = self.weight.pow(2).sum()

    def forward(self, x):
        return torch.tanh(x @ self.weight)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(8):
    net.project(step)
    loss = net(torch.randn(4, 4)).pow(2).mean() + net.penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.6f}")
