# code: UC102 UC103 UC104 UC105
# family: silent
# counter: moves
# fix: append a clone of the state
# source: https://www.codegenes.net/blog/pytorch-are-tensors-passed-by-reference-or-value
# note: value aliasing; the list holds one tensor many times

"""Echo-state network: the reservoir runs without gradients, a read-out is trained on its states."""
import torch
from torch import nn

torch.manual_seed(0)


@torch.no_grad()
def reservoir_states(w_in, w_rec, series):
    h = torch.zeros(w_rec.shape[0])
    states = []
    for u in series:
        drive = torch.tanh(w_rec @ h + w_in @ u)
        h.mul_(0.7).add_(drive, alpha=0.3)  # write
        states.append(h)
    return torch.stack(states)  # needed


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


w_in, w_rec = torch.randn(15, 2), 0.2 * torch.randn(15, 15)
series = torch.randn(30, 2)
readout = nn.Linear(15, 2)

states = reservoir_states(w_in, w_rec, series[:-1])
loss = (readout(states) - series[1:]).pow(2).mean()
loss.backward()

show("weight", readout.weight.grad)
show("bias", readout.bias.grad)
