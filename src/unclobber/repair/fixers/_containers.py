"""Elements of lists and dicts and other holders of their tensors; ``_aliases`` answers for names."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from .._syntax import Source, is_name, walk
from ._aliases import FILLS, held_elsewhere
from ._fresh import is_fresh


def element_held_elsewhere(source: Source, statement: cst.CSTNode, element: cst.Subscript) -> bool:
    """Return whether an element may share its tensor with another holder when ``statement`` runs.

    False only in plain cases: a local list or dict that was written out in its function. No other code
    received it, and it was only ever filled with newly computed values.
    """
    container = element.value
    if not isinstance(container, cst.Name) or held_elsewhere(source, statement, container):
        return True
    function = source.above(statement, cst.FunctionDef)
    scope: cst.CSTNode = source.module if function is None else function
    return not all(
        value is not None and is_fresh(value, source) for value in _filled_with(scope, container.value)
    )


def _filled_with(scope: cst.CSTNode, name: str) -> Iterator[cst.BaseExpression | None]:
    """Yield every value that becomes an element of ``name``; None for an unknown value."""
    for node in walk(scope):
        if isinstance(node, cst.Assign):
            for target in node.targets:
                yield from _put(target.target, node.value, name)
        elif isinstance(node, cst.AnnAssign):
            yield from _put(node.target, node.value, name)
        elif isinstance(node, cst.AugAssign) and is_name(node.target, name):
            yield from _content(node.value)
        elif isinstance(node, cst.Call) and (added := _method_of(node, name)) in FILLS:
            yield node.args[0].value if added == "append" and node.args else None


def _method_of(call: cst.Call, name: str) -> str:
    """Return ``append`` of ``name.append(…)``; empty for other calls."""
    func = call.func
    return func.attr.value if isinstance(func, cst.Attribute) and is_name(func.value, name) else ""


def _put(
    target: cst.BaseExpression, value: cst.BaseExpression | None, name: str
) -> Iterator[cst.BaseExpression | None]:
    """Yield the elements that an assignment puts into ``name``; None for an unknown one."""
    if is_name(target, name):
        yield from _content(value)
    elif isinstance(target, cst.Subscript) and is_name(target.value, name):
        yield value
    elif isinstance(target, (cst.Tuple, cst.List)) and any(is_name(node, name) for node in walk(target)):
        yield None


def _content(value: cst.BaseExpression | None) -> Iterator[cst.BaseExpression | None]:
    """Yield the elements of a container that is written out; None for an unknown one."""
    if isinstance(value, cst.List):
        yield from (None if isinstance(e, cst.StarredElement) else e.value for e in value.elements)
    elif isinstance(value, cst.Dict):
        yield from (e.value if isinstance(e, cst.DictElement) else None for e in value.elements)
    elif isinstance(value, cst.ListComp):
        yield value.elt
    elif isinstance(value, cst.DictComp):
        yield value.value
    elif isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply):
        yield from map(_repeated, _content(value.left))
    elif not (isinstance(value, cst.Call) and not value.args and is_name(value.func, "list", "dict")):
        yield None


def _repeated(element: cst.BaseExpression | None) -> cst.BaseExpression | None:
    # `[None] * n` is a list to be filled, but `[zeros] * n` holds one tensor n times
    return element if element is not None and _is_constant(element) else None


def _is_constant(value: cst.BaseExpression) -> bool:
    return isinstance(value, (cst.BaseNumber, cst.BaseString)) or is_name(value, "None")
