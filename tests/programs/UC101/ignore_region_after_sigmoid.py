# family: saved_modified
# torch: one of the variables needed for gradient computation has been modified by an inplace operation: \[torch\.FloatTensor \[2, 1, 16, 16\]\], which is output 0 of Sigmoid.*is at version 1; expected version 0
# vain: zero_gradient
# counter: moves
# saves: torch.sigmoid(logits)
# fix: torch.where instead of the masked write; the overwritten entries receive gradient 0, so their old values never matter
# source: https://github.com/pytorch/pytorch/issues/9391

"""Binary segmentation with an ignore region that is set to a constant probability."""
import torch
from torch import nn

torch.manual_seed(0)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


image = torch.rand(2, 3, 16, 16)
label = (torch.rand(2, 1, 16, 16) > 0.6).float()
ignore = torch.rand(2, 1, 16, 16) > 0.9

net = nn.Conv2d(3, 1, 3, padding=1)
logits = net(image)
prob = torch.sigmoid(logits)  # saved
prob[ignore] = 0.5  # write
loss = ((prob - label) ** 2).mean()
loss.backward()  # needed

show("weight", net.weight.grad)
show("bias", net.bias.grad)
