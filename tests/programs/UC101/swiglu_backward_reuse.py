# family: custom_function
# torch: modified by an inplace operation: .*output 0 of Exponential(Backward)?, is at version 1; expected version 0
# gradient: affected
# saves: Exponential's saved output, which is also MemSwiGLU's saved input `a`
# fix: Compute the input gradients into new tensors in MemSwiGLU.backward instead of overwriting the saved inputs.
# source: https://github.com/linkedin/Liger-Kernel/issues/254
# note: The overwrite happens during backward, in an earlier node of the same backward pass.

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(54)
torch.set_num_threads(1)


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.exp(x)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        (out,) = ctx.saved_tensors  # raises
        return grad_out * out


class MemSwiGLU(torch.autograd.Function):
    """silu(a) * b that recycles the saved activations as gradient buffers."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return F.silu(a) * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        sig = torch.sigmoid(a)
        grad_b = grad * a * sig
        grad_a = grad * b * sig * (1 + a * (1 - sig))
        a.copy_(grad_a)  # write
        b.copy_(grad_b)
        return a.detach(), b.detach()


class GatedMLP(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate, self.up = nn.Linear(dim, hidden), nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def positive_gate(self, x):
        return Exponential.apply(0.5 * self.gate(x))  # saved

    def forward(self, x):
        return self.down(MemSwiGLU.apply(self.positive_gate(x), self.up(x)))  # >saved


class Model(nn.Module):
    def __init__(self, dim=6, classes=3):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(dim), GatedMLP(dim, 8)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(x + self.mlp(self.norm(x)))  # >saved


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


model = Model()
loss = F.cross_entropy(model(torch.randn(5, 6)), torch.tensor([0, 1, 2, 0, 1]))  # >saved
loss.backward()  # needed >write >raises
report(model.named_parameters())
