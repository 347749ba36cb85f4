"""Names of torch's functions, methods and modules that ``operations_table.py`` reads from schemas and
signatures.

A schema says with ``Tensor(a)`` that its result may share the argument's memory, and an operation for
which torch registers a kernel at the key of views always shares it. Exceptions are listed here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch

NO_SCHEMA = frozenset({"numpy"})
NO_SCHEMA_ATTRIBUTES = frozenset({"data", "T", "H"})
"""Attributes that no schema has under this name: ``T`` and ``H`` are ``numpy_T`` and ``matrix_H`` there."""

NAMED = frozenset({"align_to", "refine_names", "rename"})
"""Methods of tensors whose dimensions have names, which torch had up to 2.12."""

ITSELF_OR_A_COPY = frozenset(
    {"as_tensor", "coalesce", "contiguous", "cpu", "cuda", "pin_memory", "positive", "resolve_conj",
     "resolve_neg", "to"}
)  # fmt: skip
"""Functions that return the tensor itself or a copy, although their schemas say ``Tensor(a)``."""

OF_SPARSE_TENSORS = frozenset(
    {"ccol_indices", "col_indices", "crow_indices", "indices", "row_indices", "values"}
)
"""Methods of sparse tensors, left out because callers match names: ``values`` is a dictionary's as well."""

UNDONE = frozenset({"slice_inverse"})
"""An operation that only torch itself calls, to make a view's base from the view."""


def view_methods(but: Iterable[str]) -> frozenset[str]:
    """Return the methods and functions that always return a view of their tensor, or its memory in NumPy.

    ``but``: those that return a copy for some strides.
    """
    return (returning("Tensor") - frozenset(but) - view_attributes()) | NO_SCHEMA | NAMED


def view_attributes() -> frozenset[str]:
    """Return the attributes of a tensor that are views of it: ``x.T``, ``x.data``."""
    views = returning("Tensor")
    return NO_SCHEMA_ATTRIBUTES | {
        name for name in views if inspect.isdatadescriptor(getattr(torch.Tensor, name, None))
    }


def several_views() -> frozenset[str]:
    """Return the methods and functions that return several views at once: ``chunk``, ``unbind``."""
    return returning("List[Tensor]")


def tied_views() -> frozenset[str]:
    """Return those of several views that share one node, so that autograd refuses writes.

    The remaining ones are composed of one slice for each view.
    """
    return frozenset(
        name
        for name in several_views()
        if any(
            torch._C._dispatch_has_kernel_for_dispatch_key(overload, "ADInplaceOrView")
            for overload in _view_overloads(name, "List[Tensor]")
        )
    )


@cache
def returning(kind: str) -> frozenset[str]:
    """Return torch's public names whose schema returns a ``kind`` that may view the first argument."""
    public = {name for home in (torch, torch.Tensor) for name in dir(home) if not name.startswith("_")}
    return frozenset(
        name for name in public - ITSELF_OR_A_COPY - OF_SPARSE_TENSORS - UNDONE if _view_overloads(name, kind)
    )


def _view_overloads(name: str, kind: str) -> list[str]:
    """Return the overloads (``aten::split.Tensor``) of an ATen function that may return a view.

    Their schema returns one ``kind`` (``Tensor``, ``List[Tensor]``) that may share the first argument's
    memory.
    """
    return [
        f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}")
        if not schema.is_mutable
        and [str(argument.type) for argument in schema.arguments[:1]] == ["Tensor"]
        and [str(result.type) for result in schema.returns if result.alias_info is not None] == [kind]
    ]


def inplace_positions() -> dict[str, int]:
    """Return the 0-based position of the argument ``inplace``: of a class of ``torch.nn`` in its
    constructor's arguments, and of a function of ``nn.functional``."""
    modules = (
        (name, kind)
        for name, kind in vars(torch.nn).items()
        if isinstance(kind, type) and issubclass(kind, torch.nn.Module)
    )
    functions = (
        (name, function)
        for name, function in vars(torch.nn.functional).items()
        if inspect.isfunction(function) and not name.startswith("_")
    )
    return {**_positions(modules), **_positions(functions)}


def _positions(named: Iterable[tuple[str, Callable[..., Any]]]) -> dict[str, int]:
    parameters = {name: list(inspect.signature(entry).parameters) for name, entry in named}
    return {name: known.index("inplace") for name, known in parameters.items() if "inplace" in known}
