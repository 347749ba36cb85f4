"""I: a checkpoint with ``preserve_rng_state=False``, as torch.compile traces each, under modes."""

import torch
from observed import observed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint


class Log(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        operations.append(str(function))
        return function(*args, **(kwargs or {}))


operations = []


def both_runs(x):
    return checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False, preserve_rng_state=False)


def step():
    x = torch.ones(3, requires_grad=True)
    with Log():
        y = both_runs(x)
    y.sum().backward()
    print(operations, x.grad)

    with FakeTensorMode():
        print(both_runs(torch.ones(3, requires_grad=True)).shape)

    compiled = torch.compile(both_runs, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        compiled(x).sum().backward()
        print(x.grad)


observed(step)
