"""Which functions, methods and attributes of tensors give views, read from torch's own schemas.

A schema says with ``Tensor(a)`` that what it returns may share its argument's memory, and an operation for
which torch registers a kernel at the key of views always does. What schemas don't say is written out here.
torch is loaded by the calls, not by the import.
"""

from __future__ import annotations

import inspect
from functools import cache

_NO_SCHEMA = frozenset({"numpy"})
_NO_SCHEMA_ATTRIBUTES = frozenset({"data", "T", "H"})
"""``T`` and ``H`` are ``numpy_T`` and ``matrix_H`` there."""

_ITSELF_OR_A_COPY = frozenset(
    {"as_tensor", "coalesce", "contiguous", "cpu", "cuda", "pin_memory", "positive", "resolve_conj",
     "resolve_neg", "to"}
)  # fmt: skip
"""Their schemas say ``Tensor(a)``, too."""

_OF_SPARSE_TENSORS = frozenset(
    {"ccol_indices", "col_indices", "crow_indices", "indices", "row_indices", "values"}
)
"""Read by their names alone they are a dictionary's, or a function's own."""

_UNDONE = frozenset({"slice_inverse"})
"""Torch calls it itself, to make a view's base from the view."""

SOMETIMES = frozenset({"flatten", "ravel", "reshape", "reshape_as"})
"""They return a view where the strides allow it, else a copy."""

EXPANDING = frozenset({"as_strided", "broadcast_to", "expand", "expand_as", "unfold"})
"""Methods after which several elements may share memory."""

EXPANDING_SEVERAL = frozenset({"broadcast_tensors", "meshgrid"})
"""Functions of several tensors that do so."""


@cache
def methods() -> frozenset[str]:
    """Methods and functions that return a view of their tensor whatever its strides, or its memory in NumPy.

    Example:
        >>> "narrow" in methods(), "reshape" in methods(), "clone" in methods()
        (True, False, False)
    """
    return (_returning("Tensor") - SOMETIMES - attributes()) | _NO_SCHEMA


@cache
def attributes() -> frozenset[str]:
    """Attributes of a tensor that are views of it: ``x.T``, ``x.data``."""
    import torch

    views = _returning("Tensor")
    return _NO_SCHEMA_ATTRIBUTES | {
        name for name in views if inspect.isdatadescriptor(getattr(torch.Tensor, name, None))
    }


@cache
def several() -> frozenset[str]:
    """Methods and functions that return several views at once.

    Example:
        >>> sorted(several())[:3]
        ['chunk', 'dsplit', 'hsplit']
    """
    return _returning("List[Tensor]")


@cache
def tied() -> frozenset[str]:
    """Those of :func:`several` whose views share one node, so that autograd refuses to have them written to.

    The others are made of one slice for each view.
    """
    from . import compat

    return frozenset(
        name for name in several() if any(map(compat.has_kernel, compat.view_overloads(name, "List[Tensor]")))
    )


@cache
def _returning(kind: str) -> frozenset[str]:
    """The public names of torch whose schema returns a ``kind`` that may be a view of the first argument."""
    import torch

    from . import compat

    public = {name for home in (torch, torch.Tensor) for name in dir(home) if not name.startswith("_")}
    return frozenset(
        name
        for name in public - _ITSELF_OR_A_COPY - _OF_SPARSE_TENSORS - _UNDONE
        if compat.view_overloads(name, kind)
    )
