# family: saved_modified
# torch: one of the variables needed for gradient computation has been modified by an inplace operation: \[torch\.FloatTensor \[1, 9, 4\]\], which is output 0 of Unsqueeze.*is at version 1; expected version 0
# vain: metadata_only
# counter: moves
# saves: h @ self.mix
# fix: unsqueeze out of place; only the shape changed, no value did
# source: https://github.com/pytorch/pytorch/pull/53342

"""Features are used as a matrix and then given a batch axis in place."""
import torch
from torch import nn

torch.manual_seed(0)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)
        self.mix = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        h = self.fc(x)
        gate = torch.sigmoid(h @ self.mix)  # saved
        h.unsqueeze_(0)  # write
        return h * gate


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


head = Head()
x = torch.randn(9, 6)
loss = head(x).pow(2).mean()
loss.backward()  # needed

for name, p in head.named_parameters():
    show(name, p.grad)
