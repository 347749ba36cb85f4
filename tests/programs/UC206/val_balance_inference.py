# family: inference_tensor
# torch: Inplace update to inference tensor outside InferenceMode is not allowed
# fix: Run the validation loop under torch.no_grad() instead of torch.inference_mode(), because its loss call leaves running state behind.
# source: https://github.com/ultralytics/yolov5/issues/11186

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(39)
torch.set_num_threads(1)


class BalancedLoss:
    """Keeps a running per-scale weight that follows the objectness loss."""

    def __init__(self, n_scales, momentum=0.9):
        self.n, self.m = n_scales, momentum
        self.balance = None

    def _update_balance(self, per_scale):
        per_scale = per_scale.detach()
        if self.balance is None:
            self.balance = torch.ones(self.n) * per_scale.mean()  # made
        self.balance.mul_(self.m).add_(per_scale, alpha=1 - self.m)  # write raises
        return self.balance / self.balance.sum()

    def __call__(self, preds, targets):
        per_scale = torch.stack([F.binary_cross_entropy_with_logits(p, t) for p, t in zip(preds, targets)])
        weights = self._update_balance(per_scale)  # >raises
        return (per_scale * weights).sum(), per_scale.detach()


class TwoScaleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 6, 3, 2, 1), nn.Conv2d(6, 8, 3, 2, 1)
        self.h1, self.h2 = nn.Conv2d(6, 1, 1), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = F.silu(self.c1(x))
        b = F.silu(self.c2(a))
        return self.h1(a), self.h2(b)


def make_batch(n):
    x = torch.rand(n, 3, 8, 8)
    return x, [(torch.rand(n, 1, 4, 4) > 0.7).float(), (torch.rand(n, 1, 2, 2) > 0.7).float()]


@torch.inference_mode()
def validate(model, compute_loss, batches):
    model.eval()
    total = torch.zeros(2)
    for x, t in batches:
        total += compute_loss(model(x), t)[1]
    return total / len(batches)


def train(model, compute_loss, opt, batches):
    model.train()
    for x, t in batches:
        opt.zero_grad()
        loss, _ = compute_loss(model(x), t)  # >raises
        loss.backward()
        opt.step()


def report(named):
    for name, p in named:
        if p.grad is None:
            print(f"grad {name} none none")
            continue
        g = p.grad.detach().double()
        total, size = g.sum().item(), g.abs().sum().item()
        total = 0.0 if abs(total) < 1e-5 * size else total
        print(f"grad {name} {total:.6g} {size:.6g}")


model, criterion = TwoScaleNet(), BalancedLoss(2)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
validate(model, criterion, [make_batch(2)])
train(model, criterion, opt, [make_batch(2)])  # >raises
report(model.named_parameters())
