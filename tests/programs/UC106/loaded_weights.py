# theme: autocast

import torch
torch.manual_seed(0)
net, x = torch.nn.Linear(4, 1), torch.ones(2, 4)
best = {name: value + 1 for name, value in net.state_dict().items()}
with torch.autocast("cpu", dtype=torch.bfloat16):
    net(x).sum().backward()
    net.zero_grad()
    net.load_state_dict(best)  # write
    net(x).float().square().sum().backward()  # saved needed
gradient = net.weight.grad
