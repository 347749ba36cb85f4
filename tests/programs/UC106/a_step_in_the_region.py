# theme: autocast

import torch
torch.manual_seed(0)
net, x = torch.nn.Linear(4, 1), torch.ones(2, 4)
opt = torch.optim.SGD(net.parameters(), lr=1.0)
with torch.autocast("cpu", dtype=torch.bfloat16):
    net(x).float().square().sum().backward()
    opt.step()  # write
    opt.zero_grad()
    loss = net(x).float().square().sum()  # saved
loss.backward()  # needed
gradient = net.weight.grad
