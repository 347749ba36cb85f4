# family: silent
# counter: stays
# saves: self.fc(x)
# fix: normalise out of place; the guard hides a write to a saved tensor
# source: https://github.com/pytorch/pytorch/pull/92924

"""Inputs are normalised in place in a section that keeps the version counter unchanged."""
import torch
from torch import nn

torch.manual_seed(0)


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.side = nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x):
        main = self.fc(x)  # saved
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(x):
            x.sub_(x.mean(dim=1, keepdim=True)).div_(x.std(dim=1, keepdim=True))  # write
        return main + self.side(x)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


net = Wide()
x, y = 2 * torch.randn(15, 6) + 1, torch.randn(15, 4)
loss = (net(x) - y).pow(2).mean()
loss.backward()  # needed

for name, p in net.named_parameters():
    show(name, p.grad)
