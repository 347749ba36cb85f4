# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
a, b = leaf(), leaf()
shift = b * 1
class Shift(torch.nn.Module):
    def forward(self, x):
        return shift + x
module = Shift()
def hook(module, grad_input, grad_output):
    grad_input[0].mul_(2)  # write
module.register_full_backward_hook(hook)
y = module(a * 1)
(y * y).sum().backward()  # needed
gradient = torch.stack([a.grad, b.grad])
