# theme: twins of what torch refuses

import torch
from torch import nn

torch.manual_seed(0)

with torch.inference_mode():
    x = torch.ones(3)
x = x.clone()
(x * torch.ones(3, requires_grad=True)).sum().backward()
