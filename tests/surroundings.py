"""What a context could leave changed, to be compared before and after."""

import threading

import torch
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from unclobber.hooks import kernels
from unclobber.torch_internals import compat

PLACES = [
    (torch.autograd, "_engine_run_backward"),
    (torch.autograd.graph, "_engine_run_backward"),
    (torch._C._autograd, "_push_saved_tensors_default_hooks"),
    (torch._C._autograd, "_pop_saved_tensors_default_hooks"),
    (torch._C._autograd, "_saved_tensors_hooks_disable"),
    (torch._C._autograd, "_saved_tensors_hooks_enable"),
    (threading.Thread, "start"),
    (torch.Tensor, "data"),
    (torch.UntypedStorage, "resize_"),
    (torch.cuda.CUDAGraph, "replay"),
    (torch.Tensor, "backward"),
    (torch.autograd.Function, "apply"),
    (torch.optim.Optimizer, "step"),
]
"""What a context may put something of its own in the place of."""


def surroundings():
    """Everything of torch and Python that a context could leave changed."""
    return {
        **{f"{home}.{name}": getattr(home, name) for home, name in PLACES if hasattr(home, name)},
        "own attributes": tuple(
            sorted(set(vars(home)) & {name}) for home, name in PLACES if isinstance(home, type)
        ),
        "step hooks": (
            len(_global_optimizer_pre_hooks),
            len(_global_optimizer_post_hooks),
        ),
        "kernels": kernels.installed(),
        "sees writes": compat.sees_writes(),
        "saved tensor hooks": compat.top_hooks(),
        "modes": compat.dispatch_modes(),
        "grad mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
    }
