# family: leaf
# torch: a leaf Variable that requires grad is being used in an in-place operation
# fix: Take the gradient step on the activations under torch.no_grad() (in place, so z stays a leaf).
# source: https://github.com/BaiTheBest/SparseLLM/issues/13
# note: The fix suggested in the thread (rebinding z = z - step * z.grad) makes z a non-leaf, so the next line's z.grad is None.

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(33)
torch.set_num_threads(1)


class GatedBlock(nn.Module):
    def __init__(self, d=6, h=10):
        super().__init__()
        self.gate, self.value = nn.Linear(d, h, bias=False), nn.Linear(d, h, bias=False)
        self.back = nn.Linear(h, d, bias=False)

    def forward(self, x):
        return self.back(F.silu(self.gate(x)) * self.value(x))


def keep_largest(weight, fraction):
    k = max(1, int(weight.numel() * fraction))
    floor = weight.abs().flatten().topk(k).values[-1]
    return torch.where(weight.abs() >= floor, weight, torch.zeros_like(weight))


class AlternatingPruner:
    """Alternates between pruning the gate and refitting free gate activations z."""

    def __init__(self, block, x, tie=1.0, rows_per_block=4):
        self.block, self.tie, self.rows_per_block = block, tie, rows_per_block
        self.x = x
        with torch.no_grad():
            self.z_all, self.value, self.goal = block.gate(x), block.value(x), block(x)
        self.log = []

    def energy(self, z, rows, sparse_gate):
        produced = self.block.back(F.silu(z) * self.value[rows])
        drift = z - self.x[rows] @ sparse_gate.T
        return F.mse_loss(produced, self.goal[rows]) + self.tie * drift.square().mean()

    def refit(self, rows, sparse_gate, step, sweeps):
        z = self.z_all[rows].clone().requires_grad_()  # made
        for _ in range(sweeps):
            self.energy(z, rows, sparse_gate).backward()
            self.log.append(z.grad.clone())
            z -= step * z.grad  # write raises
            z.grad.zero_()
        self.z_all[rows] = z.detach()

    def run(self, fraction=0.5, step=0.1, sweeps=2):
        sparse_gate = keep_largest(self.block.gate.weight.detach(), fraction)
        for rows in torch.arange(len(self.x)).split(self.rows_per_block):
            self.refit(rows, sparse_gate, step, sweeps)  # >raises
        return torch.stack(self.log)


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


block = GatedBlock().requires_grad_(False)
holder = nn.Parameter(torch.zeros(4, 4, 10))
holder.grad = AlternatingPruner(block, torch.randn(8, 6)).run()  # >raises
report([("z", holder)])
