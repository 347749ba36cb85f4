# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
a, b = leaf(), leaf()
module = torch.nn.Tanh()
def hook(module, gradients):
    return [
        gradients[0].mul_(2)  # write
    ]
module.register_full_backward_pre_hook(hook)
y = b * 1 + module(a)
(y * y).sum().backward()  # needed
gradient = torch.stack([a.grad, b.grad])
