# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
a, b = leaf(), leaf()
y = a + b
a.register_hook(lambda g: g * 2)
(y * y).sum().backward()
gradient = b.grad
