# theme: autocast

import torch
torch.manual_seed(0)
net, x = torch.nn.Linear(4, 1), torch.ones(2, 4)
opt = torch.optim.SGD(net.parameters(), lr=1.0)
with torch.autocast("cpu", dtype=torch.bfloat16):
    for _ in range(2):
        opt.zero_grad()
        net(x).float().square().sum().backward()
        opt.step()
        torch.clear_autocast_cache()
gradient = net.weight.grad
