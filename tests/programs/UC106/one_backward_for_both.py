# theme: autocast

import torch
torch.manual_seed(0)
net, x = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)), torch.ones(2, 4)
with torch.autocast("cpu", dtype=torch.bfloat16):
    first = net(x)
    with torch.no_grad():
        net[0].weight.mul_(0.5)  # write
    second = net(x)  # saved
(first + second).float().sum().backward()  # needed
gradient = net[0].weight.grad
