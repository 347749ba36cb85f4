# theme: autocast

import torch
torch.manual_seed(0)
net, x = torch.nn.Linear(4, 1), torch.ones(2, 4)
with torch.autocast("cpu", dtype=torch.bfloat16):
    net(x).sum().backward()
    net.zero_grad()
    with torch.no_grad():
        net.weight.lerp_(torch.ones(1, 4), 0.5)  # write
    net(x).float().square().sum().backward()  # saved needed
gradient = net.weight.grad
