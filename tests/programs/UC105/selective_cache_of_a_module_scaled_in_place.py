# torch: Tensor cached during selective activation checkpoint has been mutated
import functools

import torch
from torch.utils import checkpoint as cp

torch.manual_seed(0)
x, w = torch.randn(3, 4), torch.randn(4, 4, requires_grad=True)


def policy(ctx, op, *args, **kwargs):
    if op == torch.ops.aten.mm.default:
        return cp.CheckpointPolicy.MUST_SAVE
    return cp.CheckpointPolicy.PREFER_RECOMPUTE


def block(x, w):
    h = torch.nn.functional.linear(x, w)  # saved
    y = torch.tanh(h)
    h *= 0.5  # write
    return (y * h).sum()


contexts = functools.partial(cp.create_selective_checkpoint_contexts, policy)
cp.checkpoint(block, x, w, use_reentrant=False, context_fn=contexts).backward()  # needed
print(f"w {w.grad.sum().item():.6g} {w.grad.abs().sum().item():.6g}")
