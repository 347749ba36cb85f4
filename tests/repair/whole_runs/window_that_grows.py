import torch
from torch import nn

torch.manual_seed(0)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.carried = nn.Linear(3, 5), nn.Linear(5, 5)
        self.state = torch.zeros(2, 5)

    def forward(self, x):
        self.state = torch.tanh(self.inner(x) + self.carried(self.state))
        return self.state.sum(1)


net = Reader()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
loss, pending = 0.0, 0
for step in range(13):
    loss = loss + net(torch.randn(2, 3)).pow(2).mean()
    pending += 1
    if pending == (1 if step < 4 else 3):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, f"{loss.item():.6f}")
        loss, pending = 0.0, 0
