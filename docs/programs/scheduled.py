import torch

rate = torch.full((3,), 0.5, requires_grad=True)
decay = torch.sigmoid(rate)
decay.data.clamp_(max=0.6)
decay.sum().backward()
print(rate.grad)
