"""Other holders of a tensor, as far as the text shows them.

If a name or an element of a container is bound to a new tensor, another holder of the old one no longer sees
the write, which no comparison of losses and gradients need show. Where the program was run, what was measured
(``_holders``) counts and not this.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...syntax import torch_table
from .._syntax import Source, is_name, walk
from ._fresh import is_fresh, keeps_nothing

_FACTS = frozenset(
    {"device", "dtype", "grad_fn", "is_cuda", "is_leaf", "itemsize", "layout", "ndim", "requires_grad",
     "shape"}
)  # fmt: skip
"""Attributes of a tensor that are no tensors."""

_BLOCKS = (cst.IndentedBlock, cst.SimpleStatementSuite, cst.Module)


def held_elsewhere(source: Source, statement: cst.CSTNode, place: cst.BaseExpression) -> bool:
    """Return whether ``place`` may share its tensor with another holder when ``statement`` runs.

    False only in plain cases. One is a local name that is only ever bound to new results of torch's
    operations, and of which nothing before the statement reads more than its values. The other is an element
    of a local list or dict that was written out in its function, that no other code received, and that was
    only ever filled with newly computed values.
    """
    if isinstance(place, cst.Subscript) and isinstance(place.value, cst.Name):
        scope: cst.CSTNode = source.above(statement, cst.FunctionDef) or source.module
        values = _filled_with(scope, place.value.value)
        own = all(value is not None and is_fresh(value, source) for value in values)
        return not own or held_elsewhere(source, statement, place.value)
    if not isinstance(place, cst.Name):
        return True  # an attribute: its object may be known anywhere
    name = place.value
    function = _function_round(source, statement)
    scope = source.module if function is None else function
    uses = [
        n for n in walk(scope) if isinstance(n, cst.Name) and n.value == name and not _is_label(source, n)
    ]
    bindings = [
        binding
        for node in uses
        if _function_round(source, node) is function and (binding := _binding(source, node)) is not None
    ]
    sure = [
        where for where, value in bindings if is_fresh(value, source) and _leads_to(source, where, statement)
    ]
    if not sure:
        return True  # a parameter, a loop variable or a global: other code has the tensor, too
    since = max(sure, key=lambda where: source.start(where))
    if any(
        not is_fresh(value, source) and _between(source, since, where, statement) for where, value in bindings
    ):
        return True  # bound in between to another name's tensor, a part of one, or a call's result
    if isinstance(since, cst.NamedExpr) and not _values_only(source, since):
        return True
    for node in uses:
        inside = _function_round(source, node)
        if inside is not function:
            kept = not _is_local_to(source, inside, node)
        else:
            kept = _binding(source, node) is None and _between(source, since, node, statement)
        if kept and not _values_only(source, node):
            return True
    return False


def shared_name(source: Source, statement: cst.CSTNode, place: cst.BaseExpression) -> str:
    """Return a place's code if its tensor may have another holder when ``statement`` runs, else nothing."""
    return source.code(place) if held_elsewhere(source, statement, place) else ""


def _between(source: Source, since: cst.CSTNode, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
    """Return whether ``node`` may run after ``since``, which surely runs before ``statement``, and before
    that."""
    round_it = list(source.all_above(node))
    if any(above is statement or above is since for above in round_it):
        return False
    at = source.start(node)
    if source.start(since) < at < source.start(statement):
        return True
    # A loop round the statement, but not round `since`, runs what stands below the statement before its next
    # turn.
    loops = [loop for loop in source.all_above(statement) if isinstance(loop, (cst.For, cst.While))]
    again = [loop for loop in loops if not any(above is loop for above in source.all_above(since))]
    return any(above is loop for above in round_it for loop in again)


def _function_round(source: Source, node: cst.CSTNode) -> cst.CSTNode | None:
    """Return the function in whose scope a node is evaluated; a default value belongs to the enclosing
    one."""
    at = node
    for above in source.all_above(node):
        if isinstance(above, (cst.FunctionDef, cst.Lambda)):
            default = isinstance(at, cst.Parameters) and not _is_parameters_name(source, node)
            if not default and not isinstance(at, (cst.Decorator, cst.Annotation)):
                return above
        at = above
    return None


def _is_parameters_name(source: Source, node: cst.CSTNode) -> bool:
    parent = source.parents[node]
    return isinstance(parent, cst.Param) and parent.name is node


def _is_local_to(source: Source, function: cst.CSTNode | None, node: cst.Name) -> bool:
    """Return whether an inner function binds a variable of this name itself."""
    return function is not None and any(
        isinstance(other, cst.Name)
        and other.value == node.value
        and _function_round(source, other) is function
        and _binding(source, other) is not None
        for other in walk(function)
    )


def _is_label(source: Source, node: cst.Name) -> bool:
    """Return whether a name is only an attribute's or a keyword's."""
    parent = source.parents[node]
    return (isinstance(parent, cst.Attribute) and parent.attr is node) or (
        isinstance(parent, cst.Arg) and parent.keyword is node
    )


_UNKNOWN = cst.Name("unknown")
"""A value that is not fresh."""


def _binding(source: Source, node: cst.Name) -> tuple[cst.CSTNode, cst.BaseExpression | None] | None:
    """Return the node that binds a name, with the value bound; `_UNKNOWN` if that is a part of a value.

    Returns:
        None if the name is not bound there.
    """
    at: cst.CSTNode = node
    while isinstance(source.parents[at], (cst.Element, cst.StarredElement, cst.Tuple, cst.List)):
        at = source.parents[at]
    above = source.parents[at]
    if isinstance(above, cst.AssignTarget):
        assign = source.parents[above]
        assert isinstance(assign, cst.Assign)
        places: list[cst.CSTNode] = [at]
        values = [assign.value]
        if isinstance(at, cst.Tuple) and isinstance(assign.value, cst.Tuple):
            places = [element.value for element in at.elements]
            values = [element.value for element in assign.value.elements]
        sure = len(assign.targets) == 1 and len(places) == len(values) and node in places
        return assign, values[places.index(node)] if sure else _UNKNOWN
    if isinstance(above, (cst.For, cst.CompFor)) and above.target is at:
        return above, _UNKNOWN
    if at is not node:
        return None
    if isinstance(above, (cst.AnnAssign, cst.NamedExpr)) and above.target is node:
        return above, above.value
    bound = _is_parameters_name(source, node) or isinstance(
        above, (cst.AsName, cst.ImportAlias, cst.NameItem)
    )
    return (above, _UNKNOWN) if bound else None


def _values_only(source: Source, node: cst.CSTNode) -> bool:
    """Return whether an expression is read for its values alone: no code keeps its tensor or a view of it."""
    while True:
        parent = source.parents[node]
        answer = _reads_node(source, node, parent)
        if answer is not None:
            return answer
        node = parent


def _reads_node(source: Source, node: cst.CSTNode, parent: cst.CSTNode) -> bool | None:
    """Return whether ``parent`` uses only the values of ``node``; None if that depends on what uses
    ``parent``."""
    match parent:
        case (
            cst.BinaryOperation() | cst.Comparison() | cst.FormattedStringExpression()
            | cst.If() | cst.While() | cst.Assert() | cst.Return()
            | cst.Index() | cst.SubscriptElement()
        ):  # fmt: skip
            return True
        case cst.UnaryOperation():
            return None if isinstance(parent.operator, cst.Plus) else True
        case cst.Arg():
            call = source.parents[parent]
            return isinstance(call, cst.Call) and _reads_values(source, call)
        case cst.Attribute():
            return _reads_attribute(source, parent)
        case cst.AugAssign() | cst.AnnAssign():
            return parent.target is node
        case cst.AssignTarget() | cst.Del():
            return True
        case cst.Element() | cst.Tuple():
            # `return a, b` and `x = a, b` pass the tensors on; an index's tuple is read for its values
            inside = isinstance(source.parents[parent], (cst.Element, cst.Tuple, cst.Index))
            return None if inside else False
        case cst.Subscript():
            return None if parent.value is node else False
        case _:
            return False


def _reads_attribute(source: Source, attribute: cst.Attribute) -> bool | None:
    name, call = attribute.attr.value, source.parents[attribute]
    if name in _FACTS:
        return True
    if isinstance(call, cst.Call) and call.func is attribute:
        return keeps_nothing(call, source) or _is_dropped_write(source, name, call)
    return None if name in torch_table().view_attributes else False


def _reads_values(source: Source, call: cst.Call) -> bool:
    """Return whether a call only computes with an argument. A call whose value is dropped does something
    else."""
    func = call.func
    if isinstance(source.parents[call], cst.Expr) and isinstance(func, cst.Attribute):
        return func.attr.value.endswith("_")  # `x.add_(h)` writes x; `bag.add(h)` keeps h
    if isinstance(func, cst.Attribute) and func.attr.value.endswith("_"):
        return False
    return keeps_nothing(call, source)


def _is_dropped_write(source: Source, method: str, call: cst.Call) -> bool:
    """Return whether ``h.mul_(2)`` or ``hs.append(x)`` is a statement, so that no code takes its value."""
    return (method.endswith("_") or method in FILLS) and isinstance(source.parents[call], cst.Expr)


FILLS = frozenset({"append", "insert", "extend", "update", "setdefault"})
"""Methods that put their argument into a container."""


def _leads_to(source: Source, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
    """Return whether a binding surely ran before ``statement``: above it, in its block or an enclosing
    one."""
    block = next((holder for holder in source.all_above(node) if isinstance(holder, _BLOCKS)), None)
    return source.start(node) < source.start(statement) and any(
        holder is block for holder in source.all_above(statement)
    )


# --- elements of lists and dicts ----------------------------------------------------------------------


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
