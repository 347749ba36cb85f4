# family: allowed
# counter: moves
# fix: nothing to fix; batch_norm does not need its output, and each relu_ saves the tensor it produced
# source: https://discuss.pytorch.org/t/when-inplace-operation-are-allowed-and-when-not/169583/3

"""The usual ResNet block: in-place activations and an in-place shortcut."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class BasicBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)  # write
        out = self.bn2(self.conv2(out))
        out += x  # write
        return F.relu(out, inplace=True)  # write


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


block = BasicBlock(4)
x = torch.randn(2, 4, 8, 8, requires_grad=True)
loss = block(x).pow(2).mean()
loss.backward()  # needed

show("x", x.grad)
for name, p in block.named_parameters():
    show(name, p.grad)
