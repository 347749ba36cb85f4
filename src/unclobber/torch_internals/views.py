"""Functions, methods and attributes of tensors that return views, read from torch's own schemas.

A schema says with ``Tensor(a)`` that its result may share the argument's memory, and an operation for
which torch registers a kernel at the key of views always shares it. Exceptions are listed here.
The functions import torch, not the module.
"""

from __future__ import annotations

import inspect
from functools import cache

_NO_SCHEMA = frozenset({"numpy"})
_NO_SCHEMA_ATTRIBUTES = frozenset({"data", "T", "H"})
"""Attributes that no schema has under this name: ``T`` and ``H`` are ``numpy_T`` and ``matrix_H`` there."""

_ITSELF_OR_A_COPY = frozenset(
    {"as_tensor", "coalesce", "contiguous", "cpu", "cuda", "pin_memory", "positive", "resolve_conj",
     "resolve_neg", "to"}
)  # fmt: skip
"""Functions that return the tensor itself or a copy, although their schemas say ``Tensor(a)``."""

_OF_SPARSE_TENSORS = frozenset(
    {"ccol_indices", "col_indices", "crow_indices", "indices", "row_indices", "values"}
)
"""Methods of sparse tensors, left out because callers match names: ``values`` is a dictionary's as well."""

_UNDONE = frozenset({"slice_inverse"})
"""An operation that only torch itself calls, to make a view's base from the view."""

SOMETIMES = frozenset({"flatten", "ravel", "reshape", "reshape_as"})
"""Methods that return a view if the strides allow it, else a copy."""

EXPANDING = frozenset({"as_strided", "broadcast_to", "expand", "expand_as", "unfold"})
"""Methods after which several elements may share memory."""

EXPANDING_SEVERAL = frozenset({"broadcast_tensors", "meshgrid"})
"""Functions of several tensors, after which several elements may share memory."""


@cache
def methods() -> frozenset[str]:
    """Return the methods and functions that always return a view of their tensor, or its memory in NumPy.

    Example:
        >>> "narrow" in methods(), "reshape" in methods(), "clone" in methods()
        (True, False, False)
    """
    return (_returning("Tensor") - SOMETIMES - attributes()) | _NO_SCHEMA


@cache
def attributes() -> frozenset[str]:
    """Return the attributes of a tensor that are views of it: ``x.T``, ``x.data``."""
    import torch

    views = _returning("Tensor")
    return _NO_SCHEMA_ATTRIBUTES | {
        name for name in views if inspect.isdatadescriptor(getattr(torch.Tensor, name, None))
    }


@cache
def several() -> frozenset[str]:
    """Return the methods and functions that return several views at once.

    Example:
        >>> sorted(several())[:3]
        ['chunk', 'dsplit', 'hsplit']
    """
    return _returning("List[Tensor]")


@cache
def tied() -> frozenset[str]:
    """Return the members of :func:`several` whose views share one node, so that autograd refuses writes.

    The remaining ones are composed of one slice for each view.
    """
    from .compat.dispatcher import DispatchKey, view_overloads

    counts = DispatchKey.VERSION.has_kernel
    return frozenset(name for name in several() if any(map(counts, view_overloads(name, "List[Tensor]"))))


@cache
def _returning(kind: str) -> frozenset[str]:
    """Return torch's public names whose schema returns a ``kind`` that may view the first argument."""
    import torch

    from . import compat

    public = {name for home in (torch, torch.Tensor) for name in dir(home) if not name.startswith("_")}
    return frozenset(
        name
        for name in public - _ITSELF_OR_A_COPY - _OF_SPARSE_TENSORS - _UNDONE
        if compat.dispatcher.view_overloads(name, kind)
    )
