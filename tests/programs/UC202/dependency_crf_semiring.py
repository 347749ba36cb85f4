# family: view_of_leaf
# torch: a view of a leaf Variable that requires grad is being used in an in-place operation
# fix: Clone the potentials before blanking the padding in place (the library must not write into the caller's tensor).
# source: https://github.com/harvardnlp/pytorch-struct/issues/104

import torch
from torch import nn

torch.manual_seed(45)
torch.set_num_threads(1)


class LogRing:
    """Log-space algebra used by the structured layers."""

    impossible = -1e5

    @classmethod
    def blank(cls, region):
        region.fill_(cls.impossible)  # write raises

    @staticmethod
    def lift(scores):
        return scores.unsqueeze(0)

    @staticmethod
    def lower(scores):
        return scores.squeeze(0)


class ArborescenceSum:
    """Log-sum over all head assignments via the matrix-tree determinant."""

    def __init__(self, ring=LogRing):
        self.ring = ring

    def mask_padding(self, arcs, sizes):
        arcs = self.ring.lift(arcs)
        for b, n in enumerate(sizes):
            for region in (arcs[:, b, n:, :], arcs[:, b, :, n:]):  # made
                self.ring.blank(region)  # >raises
        return self.ring.lower(arcs)

    @staticmethod
    def laplacian(scores):
        weights = scores.exp()
        roots = weights.diagonal()
        between = weights * (1 - torch.eye(len(weights)))
        return torch.diag(between.sum(0) + roots) - between

    def __call__(self, arcs, sizes):
        arcs = self.mask_padding(arcs, sizes)  # >raises
        return torch.stack([torch.logdet(self.laplacian(arcs[b, :n, :n])) for b, n in enumerate(sizes)])


class DependencyDistribution:
    def __init__(self, arcs, sizes):
        self.arcs, self.sizes = arcs, sizes

    @property
    def log_z(self):
        return ArborescenceSum()(self.arcs, self.sizes)  # >raises

    def score(self, heads):
        per_sentence = []
        for b, n in enumerate(self.sizes):
            words = torch.arange(n)
            per_sentence.append(self.arcs[b, torch.tensor(heads[b]), words].sum())
        return torch.stack(per_sentence)


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


arcs = nn.Parameter(torch.randn(2, 4, 4))
dist = DependencyDistribution(arcs, sizes=[4, 3])
heads = [[0, 0, 1, 1], [1, 1, 1]]
loss = (dist.log_z - dist.score(heads)).mean()  # >raises
loss.backward()
report([("arcs", arcs)])
