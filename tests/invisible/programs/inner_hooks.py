"""D, E: the program's own pack hooks get what torch hands them, and nothing lies on what they return."""

import contextlib
import io

import torch
from observed import observed


def with_hooks(pack, unpack, run):
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return run()


def what_is_handed():
    linear = torch.nn.Linear(2, 2)
    linear.weight.main = "main"
    x = torch.ones(1, 2, requires_grad=True)
    constant = torch.full((1, 2), 3.0)
    halves = torch.ones(2, 2).unbind()

    def pack(tensor):
        producer = tensor.grad_fn.name() if tensor.grad_fn else None
        identity = tensor is linear.weight, tensor is constant, tensor is halves[0]
        print(
            type(tensor).__name__, identity, tensor.is_leaf, tensor.requires_grad, producer, tensor._is_view()
        )
        print(getattr(tensor, "main", None), tensor._base is not None)
        return tensor

    def run():
        return ((linear.weight.exp() + linear(x * 2).exp()) * constant * halves[0]).sum()

    with_hooks(pack, lambda kept: kept, run).backward()
    print(linear.weight.grad.shape)


def offloading():
    linear = torch.nn.Linear(2, 2)
    offloaded = []

    def pack(tensor):
        if isinstance(tensor, torch.nn.Parameter) or not tensor.requires_grad:
            return tensor
        offloaded.append(tensor.numel())
        return tensor.device, tensor.to("cpu", copy=True)

    def unpack(kept):
        return kept if isinstance(kept, torch.Tensor) else kept[1].to(kept[0])

    x = torch.ones(1, 2, requires_grad=True)
    with_hooks(pack, unpack, lambda: linear((x * 2).exp()).exp()).sum().backward()
    print("offloaded", offloaded)


def seen_before():
    seen, again = [], []

    def pack(tensor):
        if any(tensor is one for one in seen):
            again.append(tensor.shape)
        seen.append(tensor)
        return tensor

    weight, x = torch.nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True)
    with_hooks(pack, lambda kept: kept, lambda: (weight * x) * weight * x).sum().backward()
    print("again", again)


def parameter_returned():
    linear = torch.nn.Linear(2, 2, bias=False)
    x = torch.ones(2, 2, requires_grad=True)

    def pack(tensor):
        return linear.weight if tensor.data_ptr() == linear.weight.data_ptr() else tensor

    y = with_hooks(pack, lambda kept: kept, lambda: (x * linear.weight).sum())
    print(linear.weight.__dict__)
    torch.save(linear, io.BytesIO())
    y.backward()
    print(linear.weight.__dict__, x.grad.shape)
    return linear


def exact_results():
    kinds = []

    def unpack(kept):
        kinds.append(type(kept).__name__)
        return kept[0] if isinstance(kept, tuple) else kept

    for pack in (
        lambda t: t.detach(),
        lambda t: t.clone(),
        lambda t: (t.detach(),),
        lambda t: [t.detach()][0],
    ):
        x = torch.ones(2, requires_grad=True)
        with_hooks(pack, unpack, x.exp).sum().backward()
        print(x.grad)
    print(kinds)


def left_after_the_context(*outer):
    """Hooks that were entered in the context go on after it."""
    calls = []

    def pack(tensor):
        calls.append("pack")
        return tensor

    def unpack(kept):
        calls.append("unpack")
        return kept

    with contextlib.ExitStack() as stack:
        for context in outer:
            stack.enter_context(context)
        hooks = torch.autograd.graph.saved_tensors_hooks(pack, unpack)
        observed(hooks.__enter__)
        x = torch.ones(2, requires_grad=True)
        x.exp().sum().backward()
        hooks.__exit__()
        x.exp().sum().backward()
    x.sin().sum().backward()
    print(calls, x.grad)


def steps():
    what_is_handed()
    offloading()
    seen_before()
    exact_results()
    return parameter_returned()


linear = observed(steps)
left_after_the_context()
left_after_the_context(torch.autograd.graph.save_on_cpu())
torch.save(linear, io.BytesIO())
print(linear.weight.__dict__)
