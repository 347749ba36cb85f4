"""torch.func's transforms inside of ``torch.compile``, which forbid hooks while AOTAutograd traces."""

import torch
from observed import observed
from torch.func import grad, jacrev


def step():
    x = torch.ones(3, requires_grad=True)
    for transform in (grad(lambda a: (a * a).exp().sum()), jacrev(lambda a: a * a.sin())):
        compiled = torch.compile(lambda x, run=transform: run(x) * x, backend="aot_eager", fullgraph=True)
        for _ in range(2):
            compiled(x).sum().backward()
            print(x.grad)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (print("packed", t.shape), t)[1], lambda t: t):
        (x * x).sum().backward()
    print(x.grad)


observed(step)
