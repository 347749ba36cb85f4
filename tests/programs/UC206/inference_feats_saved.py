import torch
from torch import nn

torch.manual_seed(0)

backbone = nn.Linear(2, 3)
head = nn.Linear(3, 1)
with torch.inference_mode():
    feats = backbone(torch.randn(4, 2))  # made
loss = head(feats).sum()  # saved
loss.backward()
