# source: what torch/utils/checkpoint.py refuses without a line
# note: validation between forward and backward
import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(9)
x = torch.randn(3, 4, requires_grad=True)
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(), torch.nn.Linear(4, 1))
loss = checkpoint(net, x, use_reentrant=False).sum()  # saved
net.eval()
loss.backward()  # needed
