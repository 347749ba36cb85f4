"""K, O: ``torch.utils.swap_tensors`` swaps what it swaps plain: no weak reference of ours prevents it."""

import torch
from observed import observed

torch.__future__.set_swap_module_params_on_conversion(True)


def swapped(tensor):
    other = torch.zeros(2)
    torch.utils.swap_tensors(tensor, torch.nn.Parameter(other) if tensor.requires_grad else other)
    print(tensor.tolist())


def loaded():
    module = torch.nn.Linear(2, 2)
    print(module.load_state_dict(module.state_dict()))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        module(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    print(module.to(torch.float64).weight.dtype)


def written_while_an_alias_lives():
    w = torch.nn.Parameter(torch.ones(2))
    alias = w.detach()
    with torch.no_grad():
        w.copy_(torch.ones(2))
    swapped(w)
    print(alias.tolist())


def given_other_memory_while_an_alias_lives():
    w = torch.nn.Parameter(torch.ones(2))
    alias = w.detach()
    w.data = torch.full((2,), 3.0)
    swapped(w)
    print(alias.tolist())


def hooked():
    w = torch.nn.Parameter(torch.ones(2))
    w.register_hook(lambda gradient: gradient * 2)
    swapped(w)


def saved_by_a_graph_that_is_gone():
    w, x = torch.nn.Parameter(torch.ones(2)), torch.ones(2)
    y = (w * x).exp()
    y.sum().backward()
    w.grad = None
    for one in (w, x):
        swapped(one)


def steps():
    loaded()
    written_while_an_alias_lives()
    given_other_memory_while_an_alias_lives()
    hooked()
    saved_by_a_graph_that_is_gone()
    torch.__future__.set_swap_module_params_on_conversion(False)


observed(steps)
