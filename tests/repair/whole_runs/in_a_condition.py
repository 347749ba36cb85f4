import torch
from torch import nn

torch.manual_seed(0)


net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    if (gate := torch.sigmoid(net(torch.randn(2, 4)))).mul_(2).mean() > 0.5:
        loss = gate.mean()
    else:
        loss = gate.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.6f}")
