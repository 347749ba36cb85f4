# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
norm = torch.nn.InstanceNorm1d(3, track_running_stats=True, affine=True)
x = torch.arange(24.0).reshape(2, 3, 4).requires_grad_()
(norm(x) + norm(2 * x)).pow(2).sum().backward()
gradient = x.grad
