# family: saved_modified
# torch: modified by an inplace operation: \[CPUComplexFloatType \[2, 2, 6, 2\]\].*which is output 0 of ViewAsComplex(Backward0)?, is at version 2; expected version 1
# gradient: affected
# saves: z, the complex view of the patch-token slice, multiplied by learnable rotations
# fix: Concatenate the untouched class token with the rotated patch tokens instead of writing the rotation back into the slice that was viewed as complex.
# source: https://github.com/naver-ai/rope-vit/issues/14
# note: The query pass violates the same line too; the key pass is reported because its node runs first in backward.

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(15)
torch.set_num_threads(1)


class LearnedRotation(nn.Module):
    """Per-head learnable frequencies; turns feature pairs by position-dependent angles."""

    def __init__(self, heads, pairs):
        super().__init__()
        self.freq = nn.Parameter(torch.rand(heads, 1, pairs))

    def table(self, length):
        angle = torch.arange(length, dtype=torch.float32).view(1, -1, 1) * self.freq
        return torch.polar(torch.ones_like(angle), angle)

    @staticmethod
    def turn(part, table):
        z = torch.view_as_complex(part.unflatten(-1, (-1, 2)))
        spun = z * table  # saved
        return torch.view_as_real(spun).flatten(-2)


class SpatialAttention(nn.Module):
    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.heads, self.width = heads, dim // heads
        self.rotation = LearnedRotation(heads, self.width // 2)
        self.fused = nn.Linear(dim, 3 * dim)
        self.merge = nn.Linear(dim, dim)

    def forward(self, x):
        B, L, C = x.shape
        qkv = self.fused(x).view(B, L, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        table = self.rotation.table(L - 1)
        for t in (q, k):
            t[:, :, 1:] = self.rotation.turn(t[:, :, 1:], table)  # write >saved
        y = F.scaled_dot_product_attention(q, k, v)
        return self.merge(y.transpose(1, 2).reshape(B, L, C))


class PatchClassifier(nn.Module):
    def __init__(self, dim=8, classes=3):
        super().__init__()
        self.embed = nn.Linear(12, dim)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.norm, self.attn = nn.LayerNorm(dim), SpatialAttention(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, patches):
        x = self.embed(patches)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], dim=1)
        x = x + self.attn(self.norm(x))  # >saved >write
        return self.head(x[:, 0])


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


model = PatchClassifier()
loss = F.cross_entropy(model(torch.randn(2, 6, 12)), torch.tensor([0, 2]))  # >saved >write
loss.backward()  # needed raises
report(model.named_parameters())
