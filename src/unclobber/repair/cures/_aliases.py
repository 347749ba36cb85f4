"""Whether somebody else may hold the tensor that a name stands for: then binding the name anew hides the
write from them, and no comparison of losses and gradients need show it.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...observe._callables import VIEW_ATTRIBUTES, VIEWS
from .._syntax import Source, is_place, walk

_PERHAPS_ITSELF = VIEWS | {
    "chunk", "contiguous", "cpu", "cuda", "double", "flatten", "float", "half", "reshape", "split",
    "tensor_split", "to", "type", "unbind", "unflatten",
}  # fmt: skip

_BLOCKS = (cst.IndentedBlock, cst.SimpleStatementSuite, cst.Module)


def held_elsewhere(source: Source, statement: cst.BaseSmallStatement, place: cst.BaseExpression) -> bool:
    """Whether ``place`` may share its tensor with anything but itself when ``statement`` runs.

    False only where it is plain to see: a local name, bound to what an expression has just computed, and
    given to nobody before the statement but as an argument.
    """
    if not isinstance(place, cst.Name):
        return True  # an attribute's or a container's
    name = place.value
    function = source.above(statement, cst.FunctionDef)
    scope: cst.CSTNode = source.module if function is None else function
    bound = False
    for node, targets, value in _bindings(scope):
        if source.above(node, cst.FunctionDef) is not function:
            continue
        own = any(_binds(target, name) for target in targets)
        shared = name in shares(value)
        if own and (isinstance(node, (cst.For, cst.CompFor)) or shares(value)):
            return True  # another name's tensor, a part of one, or an element of a container
        if shared and not own and _may_come_before(source, node, statement):
            return True
        bound = bound or (own and _leads_to(source, node, statement))
    return not bound or any(  # a parameter or a global is the caller's, too
        _may_come_before(source, call, statement)
        for call in _calls_for_effect(scope)
        if any(name in shares(argument.value) for argument in call.args)
    )


def _bindings(
    scope: cst.CSTNode,
) -> Iterator[tuple[cst.CSTNode, list[cst.BaseExpression], cst.BaseExpression | None]]:
    """Every binding of names or places in ``scope`` with its targets and the value bound."""
    for node in walk(scope):
        if isinstance(node, cst.Assign):
            yield node, [target.target for target in node.targets], node.value
        elif isinstance(node, (cst.AnnAssign, cst.NamedExpr)):
            yield node, [node.target], node.value
        elif isinstance(node, (cst.For, cst.CompFor)):
            yield node, [node.target], node.iter


def _binds(target: cst.BaseExpression, name: str) -> bool:
    if isinstance(target, (cst.Tuple, cst.List)):
        return any(_binds(element.value, name) for element in target.elements)
    return isinstance(target, cst.Name) and target.value == name


def shares(value: cst.BaseExpression | None) -> set[str]:
    """First names of the places whose tensors the value may be, or be a view of, or hold."""
    if value is None:
        return set()
    if is_place(value) or isinstance(value, (cst.Attribute, cst.Subscript)):
        if isinstance(value, cst.Name):
            return {value.value}
        assert isinstance(value, (cst.Attribute, cst.Subscript))
        if isinstance(value, cst.Attribute) and value.attr.value in VIEW_ATTRIBUTES:
            return shares(value.value)
        return shares(value.value) or {""}
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        method = value.func.attr.value
        if method in _PERHAPS_ITSELF or method.endswith("_"):
            return shares(value.func.value)
        return set()
    if isinstance(value, (cst.Tuple, cst.List, cst.Set)):
        return set().union(*(shares(element.value) for element in value.elements))
    if isinstance(value, cst.Dict):
        return set().union(
            *(shares(entry.value) for entry in value.elements if isinstance(entry, cst.DictElement))
        )
    if isinstance(value, cst.IfExp):
        return shares(value.body) | shares(value.orelse)
    if isinstance(value, cst.BooleanOperation):
        return shares(value.left) | shares(value.right)
    return set()


def _calls_for_effect(scope: cst.CSTNode) -> Iterator[cst.Call]:
    """Calls that stand alone: ``bank.append(h)`` may keep what it is given."""
    for node in walk(scope):
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            yield node.value


def _may_come_before(source: Source, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
    """Whether ``node`` may have run when ``statement`` runs: it stands above it, or in a loop with it."""
    if node is statement:
        return False
    at, here = source.positions[node].start, source.positions[statement].start
    if (at.line, at.column) < (here.line, here.column):
        return True
    loops = {id(one) for one in source.all_above(statement) if isinstance(one, (cst.For, cst.While))}
    return any(id(one) in loops for one in source.all_above(node))


def _leads_to(source: Source, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
    """Whether the binding surely ran before ``statement``: above it, in the same block or one round it."""
    at, here = source.positions[node].start, source.positions[statement].start
    block = next((one for one in source.all_above(node) if isinstance(one, _BLOCKS)), None)
    return (at.line, at.column) < (here.line, here.column) and any(
        one is block for one in source.all_above(statement)
    )
