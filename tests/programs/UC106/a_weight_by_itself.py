# theme: autocast

import torch
torch.manual_seed(0)
w, x = torch.ones(4, 2, requires_grad=True), torch.ones(2, 4)
with torch.autocast("cpu", dtype=torch.bfloat16):
    before = x @ w
    before.float().sum().backward()
    w.grad = None
    with torch.no_grad():
        w.sub_(0.5)  # write
    after = torch.mm(x, w)  # saved
after.float().square().sum().backward()  # needed
gradient = w.grad
