"""Fixer: collect in a list and stack, instead of filling a buffer in a loop.

Each turn's value is then a tensor of its own, so no write comes near a tensor that another turn has saved.
Backward no longer copies the whole buffer for each row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from ...model import Finding
from .._candidate import Candidate
from .._syntax import New, Source, late, names_in, walk
from ..project import Project
from ._blocks import body_of, line_in
from ._sites import write_statements

_MAKERS = frozenset(
    {"zeros", "empty", "ones", "full", "zeros_like", "empty_like", "new_zeros", "new_empty", "new_ones"}
)


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the file with the buffers that a finding's writes fill in a loop made lists."""
    for _, (path, source, statement) in write_statements(finding, project):
        text = rewritten(source, statement)
        if text is not None:
            yield Candidate("collect the parts in a list and stack them", {path: text})


@dataclass
class _Uses:
    """Every use of the buffer between its creation and the end of the loop."""

    stores: list[cst.Assign]
    loads: list[cst.Subscript]


def rewritten(source: Source, store: cst.CSTNode) -> str | None:
    """Return the text with the buffer of ``buffer[i] = value`` made a list.

    Returns:
        None unless the buffer is made, empty, in the block of the loop. Every use up to the end of the
        loop must be a single element at the same dimension, and each turn of the loop must store once.
    """
    element = _element(store)
    loop = source.above(store, cst.For)
    torch = source.torch_name
    if element is None or loop is None or torch is None:
        return None
    name, dim = element
    body = body_of(source, loop)
    last = line_in(source, loop, body) if body is not None else None
    if body is None or last is None:
        return None
    first = next((i for i in range(last - 1, -1, -1) if _makes(body[i], name)), None)
    if first is None:
        return None
    uses = _uses(source, body[first + 1 : last + 1], name, dim)
    if uses is None or store not in uses.stores:
        return None
    in_loop = [s for s in uses.stores if loop in list(source.all_above(s))]
    # A second store in the loop, or one in an inner loop, would append more than once in a turn.
    if in_loop != [store] or source.above(store, cst.For) is not loop or not _direct(source, store, loop):
        return None
    changes: dict[cst.CSTNode, New] = {}
    for assign in uses.stores:
        changes[assign] = _appended(name)
        # `stack` takes tensors only, but a buffer's element may be set to a number.
        if assign is not store and not isinstance(assign.value, (cst.Call, cst.BinaryOperation)):
            changes[assign.value] = cst.parse_expression(f"{torch}.as_tensor({source.code(assign.value)})")
    for load in uses.loads:
        changes[load] = cst.Subscript(cst.Name(name), [cst.SubscriptElement(_at(load, dim))])
    maker = body[first]
    assert isinstance(maker, cst.SimpleStatementLine)
    changes[maker] = maker.with_changes(body=[source.parsed(f"{name} = []").body[0]])
    code = f"{name} = {torch}.stack({name})" if dim == 0 else f"{name} = {torch}.stack({name}, dim={dim})"
    changes[loop] = late(lambda updated: cst.FlattenSentinel([updated, source.parsed(code)]))
    return source.replaced(changes)


def _appended(name: str) -> New:
    """Return a change of an assignment to ``name.append(value)``, with the value after the changes inside
    it."""

    def make(updated: cst.Assign) -> cst.Expr:
        return cst.Expr(cst.Call(cst.Attribute(cst.Name(name), cst.Name("append")), [cst.Arg(updated.value)]))

    return late(make)


def _element(statement: cst.CSTNode) -> tuple[str, int] | None:
    """Return name and dimension of ``name[:, i] = value``, or None."""
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0].target
    if not isinstance(target, cst.Subscript) or not isinstance(target.value, cst.Name):
        return None
    dim = _dim(target)
    return None if dim is None else (target.value.value, dim)


def _dim(node: cst.Subscript) -> int | None:
    """Return the dimension that a subscript takes one element of, all before it being taken whole, or
    None."""
    *whole, last = [element.slice for element in node.slice]
    # A negative index counts from the buffer's end, which a list has not reached yet.
    if not isinstance(last, cst.Index) or isinstance(
        last.value, (cst.Ellipsis, cst.Tuple, cst.UnaryOperation)
    ):
        return None
    everything = all(
        isinstance(s, cst.Slice) and s.lower is None and s.upper is None and s.step is None for s in whole
    )
    return len(whole) if everything else None


def _at(node: cst.Subscript, dim: int) -> cst.BaseSlice:
    return node.slice[dim].slice


def _makes(line: cst.CSTNode, name: str) -> bool:
    """Return whether a line only creates a tensor under this name."""
    if (
        not isinstance(line, cst.SimpleStatementLine)
        or len(line.body) != 1
        or not isinstance(line.body[0], cst.Assign)
    ):
        return False
    small = line.body[0]
    target = small.targets[0].target
    if len(small.targets) != 1 or not (isinstance(target, cst.Name) and target.value == name):
        return False
    func = small.value.func if isinstance(small.value, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value in _MAKERS


def _uses(source: Source, lines: object, name: str, dim: int) -> _Uses | None:
    """Return the stores and loads of the buffer; None if it is used in any other way."""
    uses = _Uses([], [])
    for line in lines:  # type: ignore[attr-defined]
        for node in walk(line):
            if not (isinstance(node, cst.Name) and node.value == name):
                continue
            parent = source.parents[node]
            if isinstance(parent, cst.Attribute) and parent.attr is node:
                continue
            if not isinstance(parent, cst.Subscript) or parent.value is not node or _dim(parent) != dim:
                return None
            holder = source.parents[parent]
            if isinstance(holder, cst.AssignTarget):
                assign = source.parents[holder]
                if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
                    return None
                uses.stores.append(assign)
            elif isinstance(holder, (cst.AugAssign, cst.Del)):
                return None
            else:
                uses.loads.append(parent)
    return uses


def _direct(source: Source, statement: cst.CSTNode, loop: cst.For) -> bool:
    """Return whether a statement runs once in each turn: directly in the loop's body, with no
    ``continue``."""
    line = source.own_line(statement)
    if line is None or source.parents.get(line) is not loop.body:
        return False
    if any(isinstance(n, (cst.Continue, cst.Break)) for n in walk(loop.body)):
        return False
    return bool(names_in(loop.target))
