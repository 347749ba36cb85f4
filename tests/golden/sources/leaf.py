import torch

w = torch.empty(3, 3, requires_grad=True)
w.normal_()
