import torch

x = torch.ones(2, 3, requires_grad=True)
first, second = (x * 2).unbind(0)
first.add_(1)
