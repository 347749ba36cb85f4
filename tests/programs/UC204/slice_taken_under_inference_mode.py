# family: no_grad_view
# torch: A view was created in inference mode and is being modified inplace in normal mode
# counter: moves
# fix: create the view in normal mode; only the comparison needs inference mode
# source: https://github.com/pytorch/pytorch/pull/53343

"""Half of a feature vector is selected in inference mode and then gated."""
import torch
from torch import nn

torch.manual_seed(0)


@torch.inference_mode()
def pick_half(h):
    half = h.shape[1] // 2
    start = half if h[:, half:].norm() > h[:, :half].norm() else 0
    return h[:, start:start + half]  # made


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


encoder = nn.Linear(5, 8)
gate = nn.Parameter(torch.rand(4))
x = torch.randn(11, 5)

h = encoder(x)
strong = pick_half(h)
strong *= gate  # write raises
loss = h.tanh().sum(1).pow(2).mean()
loss.backward()

show("encoder.weight", encoder.weight.grad)
show("gate", gate.grad)
