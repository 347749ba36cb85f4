"""Assumptions about a variable or a method from its name."""

from __future__ import annotations

import re

from ..syntax import torch_table
from ._values import Grad, Value

_INTEGERS = re.compile(
    r"(^|_)(ids?|idx|idxs|index|indexes|indices|inds?|masks?|labels?|lengths?|lens?|tokens?|codes|batch_idx|perm|"
    r"order|edge_index|cu_seqlens|rng|seed|timesteps?|position_ids)$",
    re.I,
)
holds_sizes = re.compile(r"(^|[_.])(shapes?|sizes?)$", re.I).search
"""Whether, by this name, a value's elements are numbers and no tensors."""
is_copy = re.compile(r"(^|[._])(ema|target|teacher|averaged)([._]|$)", re.I).search
"""Whether, by this name, a network follows another one and is not trained itself."""


def holds_integers(value: Value, name: str) -> Value:
    """Return the value; by such a name it holds indices, labels or a mask, and has no gradient."""
    return value._replace(grad=Grad.NO, integer=True) if _INTEGERS.search(name) else value


def optimized(name: str) -> str:
    """Return the name of the network, or list of them, to which an optimizer's belongs; empty if to none."""
    name = name.partition("[")[0]
    match = re.fullmatch(r"(.*[a-z0-9])_opt(im(izer)?)?|(.*\.)?opt(im(izer)?)?_(\w+)", name, re.I)
    return (match[1] or f"{match[4] or ''}{match[7]}") if match else ""


_WORDS = """
split index_select add all any dim dot mean sum repeat clip prod std var type size tile float int bool
transpose reshape T view to flatten copy exp log abs gather t select round sample item normalize linear
tensor full eye empty real imag interpolate max min sort pad sub mul div diff map where rank unique quantile
median half double cpu cuda long short put take trace diagonal squeeze cumsum cumprod argmax argmin argsort
nonzero ravel swapaxes conj fill stft fold cov corrcoef hash_tensor set detach mode sign roll flip expand
cross cat stack chunk numpy eq ne lt le gt ge neg negative
"""
_ELSEWHERE = frozenset(_WORDS.split()).union(*map(dir, (str, list, dict, set, float, bytes)))
"""Names that Python's own values, arrays, frames, distributions and classes of other packages have, too."""


def only_tensors_have(name: str) -> bool:
    """Return whether a method by this name is evidence that its object is a tensor."""
    return name not in _ELSEWHERE and torch_table().knows(name)
