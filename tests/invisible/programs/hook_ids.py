"""The ids of hooks, by which `_backward_hooks` and its like find them, are counted as if nobody looked."""

import torch
from observed import observed


def step():
    tensor = torch.ones(2, requires_grad=True)
    layer = torch.nn.Linear(2, 2)
    sgd = torch.optim.SGD(layer.parameters(), lr=0.1)
    handles = [
        tensor.register_hook(lambda gradient: None),
        layer.register_forward_hook(lambda *given: None),
        layer.register_full_backward_hook(lambda *given: None),
        sgd.register_step_post_hook(lambda *given: None),
    ]
    layer(tensor).sum().backward()
    sgd.step()
    handles.append(tensor.register_hook(lambda gradient: None))
    print([handle.id for handle in handles], list(tensor._backward_hooks))
    for handle in handles:
        handle.remove()


for _ in range(2):
    observed(step)
