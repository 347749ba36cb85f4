import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(9)
x = torch.randn(3, 4, requires_grad=True)
cache = [x]
checkpoint(lambda *xs: torch.cat(xs).sin().sum(), *cache, use_reentrant=False).backward()
