"""Contexts that serve as oracles beside ours; they are right or wrong in known ways."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks


def _itself(tensor: Tensor) -> Tensor:
    return tensor


def unchecked() -> saved_tensors_hooks:
    """Switch torch's version check off and put nothing in its place.

    What torch refuses inside has nothing to do with saved tensors; the gradients inside are
    those of a guard that does nothing.
    """
    return saved_tensors_hooks(Tensor.detach, _itself)


def lazy_clone() -> saved_tensors_hooks:
    """Copy a storage on the first write after each save.

    The values that backward sees are the saved ones bit for bit, at the cost of whole storages.
    """
    return saved_tensors_hooks(lambda tensor: torch._lazy_clone(tensor.detach()), _itself)
