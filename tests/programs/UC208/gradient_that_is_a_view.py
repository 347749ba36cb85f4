import torch
from torch import nn

torch.manual_seed(0)

w = torch.nn.Parameter(torch.ones(3))
opt = torch.optim.SGD([w], lr=0.1)
w.grad = torch.ones(2, 3, requires_grad=True).exp()[0]
opt.zero_grad(set_to_none=False)  # write
