# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
a = leaf()
module = torch.nn.Tanh()
def hook(module, gradients, *more):
    gradients[0].mul_(2)
module.register_full_backward_pre_hook(hook)
module.register_full_backward_hook(hook)
(module(a * 1) * a).sum().backward()
gradient = a.grad
