# family: saved_modified
# torch: one of the variables needed for gradient computation has been modified by an inplace operation: \[torch\.FloatTensor \[10, 24\]\], which is output 0 of Relu.*is at version 1; expected version 0
# vain: only_sign_needed
# counter: moves
# saves: F.relu(self.fc1(x))
# fix: Dropout(inplace=False); relu's backward needs only which outputs are positive, and dropout changes that only where the gradient is zero
# source: https://discuss.pytorch.org/t/relu-dropout-inplace/13467

"""A small classifier with memory-saving dropout after the activation."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(8, 24), nn.Linear(24, 3)
        self.drop = nn.Dropout(0.5, inplace=True)

    def forward(self, x):
        h = F.relu(self.fc1(x))  # saved
        h = self.drop(h)  # write
        return self.fc2(h)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


net = MLP()
x, y = torch.randn(10, 8), torch.randint(0, 3, (10,))
loss = F.cross_entropy(net(x), y)
loss.backward()  # needed

for name, p in net.named_parameters():
    show(name, p.grad)
