# family: silent
# counter: moves
# saves: ctx.x = x
# fix: save_for_backward (which would have raised) and a fresh buffer per micro-batch
# source: https://github.com/pytorch/pytorch/issues/32625
# note: the version counter moves, but ctx attributes are never checked

"""A custom scaled product; the input buffer is refilled for the next micro-batch."""
import torch

torch.manual_seed(0)


class ScaledProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.x = x  # saved
        ctx.w = w
        return (x @ w) / x.shape[1] ** 0.5

    @staticmethod
    def backward(ctx, grad):
        grad = grad / ctx.x.shape[1] ** 0.5
        return grad @ ctx.w.t(), ctx.x.t() @ grad


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


w = torch.randn(6, 3, requires_grad=True)
batches = torch.randn(3, 8, 6)
buffer = torch.empty(8, 6)
total = 0.0
for batch in batches:
    buffer.copy_(batch)  # write
    total = total + ScaledProduct.apply(buffer, w).tanh().pow(2).sum()  # saved?
total.backward()  # needed

show("w", w.grad)
