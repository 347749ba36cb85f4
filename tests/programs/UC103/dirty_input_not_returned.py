# family: custom_function
# torch: Some elements marked as dirty during the forward method were not returned as output
# counter: moves
# fix: return the tensor that was marked dirty itself
# source: https://github.com/pytorch/pytorch/pull/33069

"""A memory-saving normalisation that works in place and returns its output and the scale."""
import torch
from torch import nn

torch.manual_seed(0)


class NormalizeInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        scale = x.norm(dim=1, keepdim=True)
        x.div_(scale)  # write
        ctx.mark_dirty(x)
        out = x.clone()
        ctx.save_for_backward(out, scale)
        return out

    @staticmethod
    def backward(ctx, grad):
        out, scale = ctx.saved_tensors
        return (grad - out * (grad * out).sum(dim=1, keepdim=True)) / scale


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


layer = nn.Linear(4, 6)
x, y = torch.randn(10, 4), torch.randn(10, 6)
unit = NormalizeInPlace.apply(layer(x))  # needed
loss = (unit * y).sum(dim=1).exp().mean()
loss.backward()

show("weight", layer.weight.grad)
show("bias", layer.bias.grad)
