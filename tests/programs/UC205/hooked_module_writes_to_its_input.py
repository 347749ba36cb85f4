import torch
from torch import nn

torch.manual_seed(0)

class Shift(nn.Module):
    def forward(self, x):
        x += 1  # write
        return x
fc, shift = nn.Linear(2, 2), Shift()
shift.register_full_backward_hook(lambda module, grads_in, grads_out: None)
h = fc(torch.randn(3, 2))
shift(h)  # made
