# family: saved_modified
# torch: modified by an inplace operation: \[torch\.FloatTensor \[3, 5\]\].* is at version \d+; expected version \d+
# vain: yes
# gradient: unaffected
# saves: states[:, t], read by the cell's recurrent Linear
# fix: Keep the states in a list and torch.stack them at the end (or read states[:, t].clone()).
# source: https://github.com/pytorch/pytorch/issues/114505
# note: Each step writes column t+1 only, while the saved column t is never rewritten; all columns share one version counter.

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(48)
torch.set_num_threads(1)


class ResidualCell(nn.Module):
    def __init__(self, d_in, d_state):
        super().__init__()
        self.inp = nn.Linear(d_in, d_state)
        self.rec = nn.Linear(d_state, d_state)

    def forward(self, x, s):
        drive = self.inp(x)
        mixed = self.rec(s)  # saved
        return s + 0.1 * torch.tanh(drive + mixed)


class TrajectoryModel(nn.Module):
    def __init__(self, d_in=2, d_state=5, d_out=2):
        super().__init__()
        self.init = nn.Linear(d_in, d_state)
        self.cell = ResidualCell(d_in, d_state)
        self.readout = nn.Linear(d_state, d_out)
        self.d_state = d_state

    def rollout(self, controls):
        B, T, _ = controls.shape
        states = controls.new_zeros(B, T + 1, self.d_state)
        states[:, 0] = self.init(controls[:, 0])
        for t in range(T):
            nxt = self.cell(controls[:, t], states[:, t])  # >saved
            states[:, t + 1] = nxt  # write
        return states

    def forward(self, controls):
        return self.readout(self.rollout(controls)[:, 1:])  # >saved >write


def smoothness(pred):
    return (pred[:, 1:] - pred[:, :-1]).pow(2).mean()


def fit_batch(model, opt, controls, path):
    pred = model(controls)  # >saved >write
    loss = F.mse_loss(pred, path) + 0.1 * smoothness(pred)
    opt.zero_grad()
    loss.backward()  # needed raises
    opt.step()
    return loss.item()


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


model = TrajectoryModel()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
fit_batch(model, opt, torch.randn(3, 6, 2), torch.randn(3, 6, 2).cumsum(1))  # >saved >write >raises
report(model.named_parameters())
