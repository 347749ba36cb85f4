# source: slot memories that start from one learned set, expanded over the batch
import torch
from torch import nn

torch.manual_seed(0)
first, value = nn.Parameter(torch.randn(1, 3, 4)), nn.Linear(2, 4)
slots = first.expand(2, -1, -1)
weights = torch.softmax(slots.sum(-1), -1)
slots = slots + weights.unsqueeze(-1) * value(torch.ones(2, 1, 2))
slots.square().sum().backward()
