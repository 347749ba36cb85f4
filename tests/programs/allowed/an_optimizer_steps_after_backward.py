# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
net = torch.nn.Linear(4, 1)
opt = torch.optim.AdamW(net.parameters(), fused=True)
for _ in range(3):
    opt.zero_grad()
    net(leaf()).sum().backward()
    opt.step()
gradient = net.weight.grad
