import torch
from torch import nn

torch.manual_seed(0)


class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(4, 3))
        self.inner = nn.Linear(3, 3)

    def revive(self, row, x):
        with torch.no_grad():
            self.codes[row] = x
        self.target = self.inner(x)

    def forward(self, x):
        return torch.cdist(self.inner(x), self.codes).min(1).values.mean()


net = Codebook()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(7):
    x = torch.randn(5, 3)
    net.revive(step % 4, x[0])
    loss = net(x)
    if step > 4:
        loss = loss + net.target.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.6f}")
