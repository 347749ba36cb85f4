"""Fixer: give the assignment to a part its functional form, ``x[mask] = 0`` as ``x = torch.where(mask, 0,
x)``.

``masked_fill`` and ``where`` for masks and numbers, ``index_fill`` for index tensors and numbers,
``index_put`` for masks and index tensors, ``select_scatter`` and ``slice_scatter`` for one integer or slice.
The text doesn't always show which of them an index needs. The operation that wrote distinguishes masks and
index tensors from integers and slices. The remaining choice is a guess, which the proof decides.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Source, assignment, is_place, single_target
from ..project import Project
from ._aliases import shared_name
from ._blocks import assigned_to
from ._liveness import read_later
from ._operators import binary
from ._sites import write_statements

_BY_TENSOR = ("masked_fill", "torch.where", "index_fill", "index_put")
_BY_MASK = ("masked_fill", "torch.where")
_BY_NUMBER = ("select_scatter", "slice_scatter")
_FORMS_OF = {
    "index_put_": _BY_TENSOR,
    "_index_put_impl_": _BY_TENSOR,
    "masked_fill_": _BY_TENSOR,
    "copy_": _BY_NUMBER,
    "fill_": _BY_NUMBER,
}
"""Forms that an index may have, by the operation that ``x[…] = v`` ran. A tensor as an index leads to
``index_put_``, others to a write of a view (python_variable_indexing.cpp in torch/csrc/autograd)."""
_TESTS = frozenset(
    {"isnan", "isinf", "isfinite", "eq", "ne", "lt", "le", "gt", "ge", "bool", "logical_not", "logical_and"}
    | {"logical_or", "logical_xor", "isclose", "isin"}
)
"""Functions and methods of torch whose results are masks."""


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield functional forms of the writing assignments."""
    for write, (path, source, statement) in write_statements(finding, project):
        for text, name, form in rewrites(source, statement):
            if form not in _FORMS_OF.get(write.operation or "", (form,)):
                continue
            # In a loop, each turn copies the whole tensor, so another fixer is preferred.
            looped = source.loop_round(statement) is not None
            shared = shared_name(source, statement, cst.parse_expression(name))
            title = f"build the new `{name}` with `{form}`"
            guess = form == "index_fill" or (form in _BY_MASK and not _is_mask_written(source, statement))
            yield Candidate(title, {path: text}, late=looped, shared_name=shared, guess=guess)


def rewrites(source: Source, statement: cst.CSTNode) -> Iterator[tuple[str, str, str]]:
    """Yield new texts, the name that is bound to the result, and the function that is used."""
    assigned = _parts(statement)
    if assigned is None:
        return
    target, value = assigned
    place = target.value
    if not is_place(place) or not read_later(source, statement, place):
        return
    torch = source.torch_name or ""
    x, v = source.code(place), source.code(value)
    for form, code in _forms(source, target, x, v, _is_number(value), torch):
        if "\n" not in code:
            new = assignment(place, cst.parse_expression(code))
            yield source.with_statement(statement, new), x, form


def _parts(statement: cst.CSTNode) -> tuple[cst.Subscript, cst.BaseExpression] | None:
    """Return the subscript that a statement assigns, with the value, or None."""
    target = single_target(statement)
    if isinstance(statement, cst.Assign) and isinstance(target, cst.Subscript):
        return target, statement.value
    if isinstance(statement, cst.AugAssign) and isinstance(statement.target, cst.Subscript):
        return statement.target, binary(statement)
    return None


def _forms(
    source: Source, target: cst.Subscript, x: str, v: str, number: bool, torch: str
) -> Iterator[tuple[str, str]]:
    """Yield the functional forms of ``x[…] = v`` with their code, by the index as it is written."""
    elements = [element.slice for element in target.slice]
    if len(elements) == 1 and isinstance(elements[0], cst.Index):
        index = source.code(elements[0].value)
        if number:
            yield "masked_fill", f"{x}.masked_fill({index}, {v})"
            if torch:
                yield "torch.where", f"{torch}.where({index}, {v}, {x})"
            yield "index_fill", f"{x}.index_fill(0, {index}, {v})"
        else:
            yield "index_put", f"{x}.index_put(({index},), {v})"
            yield "select_scatter", f"{x}.select_scatter({v}, 0, {index})"
        return
    if number:
        return
    open_ = [n for n, e in enumerate(elements) if not _is_everything(e)]
    # An ellipsis hides the dimension (test_scatter.py, test_not_safe_so_untouched).
    if len(open_) != 1 or any(_is_ellipsis(e) for e in elements[: open_[0]]):
        if elements and all(isinstance(e, cst.Index) and not _is_ellipsis(e) for e in elements):
            indices = ", ".join(source.code(e.value) for e in elements if isinstance(e, cst.Index))
            yield "index_put", f"{x}.index_put(({indices}), {v})"
        return
    dim = open_[0]
    part = elements[dim]
    if isinstance(part, cst.Index):
        yield "select_scatter", f"{x}.select_scatter({v}, {dim}, {source.code(part.value)})"
    elif isinstance(part, cst.Slice) and part.step is None:
        ends = [source.code(end) if end is not None else "None" for end in (part.lower, part.upper)]
        yield "slice_scatter", f"{x}.slice_scatter({v}, {dim}, {ends[0]}, {ends[1]})"


def _is_everything(part: cst.BaseSlice) -> bool:
    return isinstance(part, cst.Slice) and part.lower is None and part.upper is None and part.step is None


def _is_ellipsis(part: cst.BaseSlice) -> bool:
    return isinstance(part, cst.Index) and isinstance(part.value, cst.Ellipsis)


def _is_number(value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.UnaryOperation):
        value = value.expression
    return isinstance(value, (cst.Integer, cst.Float))


def _is_mask_written(source: Source, statement: cst.CSTNode) -> bool:
    """Return whether the text shows that the index of an assignment to a part is a mask."""
    assigned = _parts(statement)
    if assigned is None or len(assigned[0].slice) != 1:
        return False
    part = assigned[0].slice[0].slice
    return isinstance(part, cst.Index) and _is_mask(source, part.value)


def _is_mask(source: Source, node: cst.BaseExpression, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression gives truth values: a comparison, or a name that is bound to such ones
    alone.

    Args:
        source: The file.
        node: The expression.
        seen: Names on the way here, whose values are not followed again.
    """
    if isinstance(node, cst.Comparison):
        return True
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.BitInvert) and _is_mask(source, node.expression, seen)
    if isinstance(node, cst.BinaryOperation):
        logical = isinstance(node.operator, (cst.BitAnd, cst.BitOr, cst.BitXor))
        return logical and _is_mask(source, node.left, seen) and _is_mask(source, node.right, seen)
    if isinstance(node, cst.Call):
        return isinstance(node.func, cst.Attribute) and node.func.attr.value in _TESTS
    if not isinstance(node, cst.Name) or node.value in seen:
        return False
    values = list(assigned_to(source, node.value))
    return bool(values) and all(_is_mask(source, value, seen | {node.value}) for value in values)
