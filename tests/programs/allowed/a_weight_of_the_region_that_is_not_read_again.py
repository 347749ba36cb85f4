# theme: autocast

import torch
torch.manual_seed(0)
net, other, x = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1), torch.ones(2, 4)
opt = torch.optim.SGD(other.parameters(), lr=1.0)
with torch.autocast("cpu", dtype=torch.bfloat16):
    other(x).float().square().sum().backward()
    opt.step()
    net(x).float().square().sum().backward()
gradient = net.weight.grad
