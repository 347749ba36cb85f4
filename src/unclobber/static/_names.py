"""Assumptions about a variable from its name."""

from __future__ import annotations

import re
from dataclasses import replace

from ._values import Grad, Value

_INTEGERS = re.compile(
    r"(^|_)(ids?|idx|idxs|index|indexes|indices|inds?|masks?|labels?|lengths?|lens?|tokens?|codes|batch_idx|perm|"
    r"order|edge_index|cu_seqlens|rng|seed|timesteps?|position_ids)$",
    re.I,
)
_SIZES = re.compile(r"(^|[_.])(shapes?|sizes?)$", re.I)
TRAINED = re.compile(
    r"loss|criterion|crit\b|mse|bce|net|model|encod|decod|head|disc|gen|critic|actor|policy|layer|proj|^[A-Z]$|^f?c\d*$",
    re.I,
)
"""Names of modules and losses, whose results depend on their arguments."""


def holds_integers(value: Value, name: str) -> Value:
    """Return the value; by such a name it holds indices, labels or a mask, and has no gradient.

    Example:
        >>> holds_integers(Value(), "input_ids").grad, holds_integers(Value(), "hidden").grad
        (<Grad.NO: 0>, <Grad.MAYBE: 1>)
    """
    return replace(value, grad=Grad.NO, integer=True) if _INTEGERS.search(name) else value


def holds_sizes(name: str) -> bool:
    """Return whether, by this name, a value's elements are numbers and no tensors.

    Example:
        >>> holds_sizes("self.image_size"), holds_sizes("input_shape"), holds_sizes("reshaped")
        (True, True, False)
    """
    return _SIZES.search(name) is not None
