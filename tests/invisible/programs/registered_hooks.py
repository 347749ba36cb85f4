"""N: a program registers hooks for one saved tensor of a node, as torch's tutorial does."""

import gc
import weakref

import torch
from observed import observed

CALLS = []


def pack(tensor):
    CALLS.append(("pack", type(tensor).__name__, tensor.requires_grad, tensor.grad_fn, tensor._is_view()))
    CALLS.append((tensor._base is None, torch.is_grad_enabled(), tensor.tolist()))
    return tensor


def unpack(kept):
    CALLS.append(("unpack", type(kept).__name__, torch.is_grad_enabled()))
    return kept


def told(*args):
    print(*args, CALLS)
    CALLS.clear()


def refused(call):
    try:
        print(call())
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        print(type(error).__name__, str(error).partition("object at")[0])


def of_a_result_and_a_leaf():
    w = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
    y = w.exp()
    z = y * w
    for raw in (y.grad_fn._raw_saved_result, z.grad_fn._raw_saved_self, z.grad_fn._raw_saved_other):
        raw.register_hooks(pack, unpack)
        told(type(getattr(raw, "data", None)).__name__)
    (gradient,) = torch.autograd.grad(z.sum(), w, create_graph=True)
    told(gradient)
    gradient.sum().backward()
    told(w.grad, z.grad_fn._saved_other is w, z.grad_fn is y.grad_fn)


def of_other_things():
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    y = x.pow(2)
    file = {}

    def to_file(tensor):
        file["kept"] = tensor.clone()
        return "kept"

    raw = y.grad_fn._raw_saved_self
    raw.register_hooks(to_file, lambda name: file.pop(name) * 2)
    print(getattr(raw, "data", "kept"))
    y.sum().backward()
    print(x.grad, file, getattr(raw, "data", None))


def what_torch_refuses():
    x = torch.ones(2, requires_grad=True)
    y = (x * 2).exp()
    raw = y.grad_fn._raw_saved_result
    refused(lambda: raw.register_hooks(1, 2))
    refused(lambda: raw.register_hooks(pack))
    refused(lambda: raw.register_hooks(lambda tensor: tensor.mul_(2), unpack))
    refused(lambda: raw.register_hooks(pack, unpack))
    y = (x * 2).exp()
    raw = y.grad_fn._raw_saved_result
    refused(lambda: raw.register_hooks(lambda tensor: [].pop(), unpack))
    refused(lambda: raw.register_hooks(pack, unpack))
    refused(lambda: y.sum().backward())
    y = (x * 2).exp()
    raw = y.grad_fn._raw_saved_result
    raw.register_hooks(lambda tensor: tensor, lambda kept: 5)
    refused(lambda: raw.register_hooks(pack, unpack))
    refused(lambda: y.sum().backward())
    y = x.exp()
    y.sum().backward()
    refused(lambda: y.grad_fn._raw_saved_result.register_hooks(pack, unpack))
    y = x * 2
    refused(lambda: y.grad_fn._raw_saved_self.register_hooks(pack, unpack))
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda kept: kept):
        y = x.exp()
    refused(lambda: y.grad_fn._raw_saved_result.register_hooks(pack, unpack))


def what_they_raise():
    class MineError(Exception):
        pass

    def fail(_):
        raise MineError

    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda tensor: tensor, fail)
    for run in (lambda: y.grad_fn._saved_result, lambda: y.sum().backward()):
        try:
            run()
        except MineError as error:
            print(type(error).__name__, error.__cause__)


def of_a_function():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, gradient):
            x, w = ctx.saved_tensors
            print(x is leaves[0], w is leaves[1], x.requires_grad, w.requires_grad)
            return gradient * w, gradient * x

    leaves = [torch.ones(2, requires_grad=True) for _ in range(2)]
    y = Product.apply(*leaves)
    y.grad_fn._raw_saved_tensors[0].register_hooks(pack, unpack)
    y.sum().backward()
    told(leaves[0].grad, leaves[1].grad)


def memory_that_is_let_go():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    z = y.exp() + y.sin()
    kept = weakref.ref(y)
    for node, _ in z.grad_fn.next_functions:
        for name in ("_raw_saved_result", "_raw_saved_self"):
            if hasattr(node, name):
                getattr(node, name).register_hooks(lambda tensor: tensor.tolist(), torch.tensor)
    del y, node
    gc.collect()
    print(kept())
    z.sum().backward()
    print(x.grad)


def steps():
    for step in (
        of_a_result_and_a_leaf,
        of_other_things,
        what_torch_refuses,
        what_they_raise,
        of_a_function,
        memory_that_is_let_go,
    ):
        step()


observed(steps)
