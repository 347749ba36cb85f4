# theme: past the version counter

import torch


def clipped(x):
    """Torch keeps the result of relu apart from `a`, which nothing keeps alive until backward."""
    a = torch.relu(x * 2)
    a.data = torch.tensor([-1.0, 5.0, -7.0])
    return (a * 2).sum()


x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
clipped(x).backward()
gradient = x.grad
