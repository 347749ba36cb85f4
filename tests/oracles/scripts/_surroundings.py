"""What torch must be like once a context of ours is left."""

from __future__ import annotations

from typing import Any

import torch

from torch_features import FEATURES

_PLACES = (
    (torch._C._autograd, "_push_saved_tensors_default_hooks"),
    (torch._C._autograd, "_saved_tensors_hooks_disable"),
    (torch._C._autograd, "_saved_tensors_hooks_enable"),
    (torch.autograd.graph, "_engine_run_backward"),
    (torch.autograd, "backward"),
    (torch.autograd, "grad"),
    (torch.Tensor, "backward"),
    (torch.Tensor, "register_hook"),
    (torch.Tensor, "data"),
    (torch.Tensor, "detach_"),
    (torch.Tensor, "numpy"),
    (torch.nn.Module, "__call__"),
    (torch.UntypedStorage, "resize_"),
)


def surroundings() -> tuple[Any, ...]:
    """Everything that we are known to touch, to be compared with what it was."""
    return (
        torch._C._autograd._top_saved_tensors_default_hooks(False) if FEATURES["top hooks"].there else None,
        *(getattr(home, name) for home, name in _PLACES),
        "apply" in vars(torch.autograd.Function),
        torch.is_grad_enabled(),
        _own_refusal(),
    )


def _own_refusal() -> type[Exception] | None:
    """What torch's version check raises."""
    w = torch.ones(2, requires_grad=True)
    y = w.exp()
    y.add_(1)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return type(error)
    return None
