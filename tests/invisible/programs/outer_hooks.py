"""H: hooks that were entered before the context are called inside it, and for nothing of ours."""

import torch
from observed import observed
from torch.utils.checkpoint import checkpoint


def counting():
    for _ in range(2):
        calls = []

        def pack(tensor, calls=calls):
            calls.append(("pack", tuple(tensor.shape)))
            return tensor

        def unpack(kept, calls=calls):
            calls.append(("unpack", tuple(kept.shape)))
            return kept

        x = torch.ones(2, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = observed(lambda x=x: x.exp().sum() + observed(lambda: x.sin().sum()))
            z = x.cos().sum()
        (y + z).backward()
        print(calls, x.grad)


def on_cpu():
    x = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.save_on_cpu():
        y = observed(lambda: (x * x).exp())
    y.sum().backward()
    print(x.grad)


def inside_of_a_checkpoint():
    calls = []

    def run(x):
        calls.append(1)
        return observed(lambda: x.exp().sin())

    for reentrant in (False, True):
        x = torch.ones(3, requires_grad=True)
        for early_stop in (True, False):
            with torch.utils.checkpoint.set_checkpoint_early_stop(early_stop):
                checkpoint(run, x, use_reentrant=reentrant).sum().backward()
        print(len(calls), x.grad)


def both_at_once():
    calls = []

    def run(x):
        calls.append(1)
        return x.exp().sin()

    x = torch.ones(3, requires_grad=True)

    def pack(tensor):
        calls.append("pack")
        return tensor

    def step():
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
            y = checkpoint(lambda x: observed(lambda: run(x)), x, use_reentrant=False) * x.exp()
        y.sum().backward()

    observed(step)
    print(calls, x.grad)


counting()
on_cpu()
inside_of_a_checkpoint()
both_at_once()
