# family: double_backward
# torch: Trying to backward through the graph a second time
# saves: the factor in decay * model.penalty() (first freed node the second backward reaches)
# fix: Move the forward pass and the loss into the descent loop so every iteration builds its own graph.
# source: https://github.com/karpathy/nn-zero-to-hero/issues/31

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(42)
torch.set_num_threads(1)
NAMES = ("ada", "edsger", "grace", "alan", "barbara", "donald")


class LetterPairs:
    """All (letter, next letter) pairs, with '#' as the boundary symbol."""

    def __init__(self, names):
        self.alphabet = ["#"] + sorted(set("".join(names)))
        code = {c: k for k, c in enumerate(self.alphabet)}
        text = "#" + "#".join(names) + "#"
        stream = torch.tensor([code[c] for c in text])
        self.now, self.following = stream[:-1], stream[1:]

    def __len__(self):
        return len(self.alphabet)


class PairModel(nn.Module):
    """A one-layer softmax over the next letter, fed with one-hot rows."""

    def __init__(self, n):
        super().__init__()
        self.table = nn.Parameter(torch.randn(n, n))
        self.tilt = nn.Parameter(torch.zeros(n))

    def scores(self, now):
        rows = F.one_hot(now, self.table.shape[0]).to(self.table.dtype)
        return rows @ self.table + self.tilt

    def surprise(self, now, following):
        logp = self.scores(now).log_softmax(dim=1)
        return -logp.gather(1, following.unsqueeze(1)).mean()

    def penalty(self):
        return self.table.square().mean()


def descend(model, data, steps=3, rate=5.0, decay=0.01):
    curve = []
    cost = model.surprise(data.now, data.following) + decay * model.penalty()  # saved
    for _ in range(steps):
        model.zero_grad()
        cost.backward()  # needed freed raises
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-rate)
        curve.append(cost.item())
    return curve


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


data = LetterPairs(NAMES)
model = PairModel(len(data))
descend(model, data)  # >saved >raises
report(model.named_parameters())
