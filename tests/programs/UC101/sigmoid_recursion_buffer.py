# family: saved_modified
# torch: one of the variables needed for gradient computation has been modified by an inplace operation: \[torch\.FloatTensor \[\]\].*is at version \d+; expected version \d+
# vain: disjoint_region
# counter: moves
# saves: f[i] * gain
# fix: keep the states in a list and torch.stack them; the cell that is written is never the cell that was saved
# source: https://github.com/pytorch/pytorch/issues/36470

"""A recursive filter f[i+1] = sigmoid(f[i] * gain + drive[i]) whose states share one buffer."""
import torch

torch.manual_seed(0)


def recursive_filter(gain, drive, first):
    steps = drive.shape[0]
    f = torch.zeros(steps + 1)
    f[0] = first
    for i in range(steps):
        f[i + 1] = torch.sigmoid(f[i] * gain + drive[i])  # saved write
    return f


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


gain = torch.tensor(1.7, requires_grad=True)
drive = torch.randn(24, requires_grad=True)
target = torch.linspace(0.2, 0.9, 25)

states = recursive_filter(gain, drive, first=0.5)
loss = ((states - target) ** 2).mean()
loss.backward()  # needed

show("gain", gain.grad)
show("drive", drive.grad)
