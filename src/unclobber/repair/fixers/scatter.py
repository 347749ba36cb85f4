"""Fixer: give the write of a part its functional form, ``x[mask] = 0`` as ``x = torch.where(mask, 0, x)``.

``masked_fill`` and ``where`` for masks and numbers, ``index_fill`` for index tensors and numbers,
``index_put`` for masks and index tensors, ``select_scatter`` and ``slice_scatter`` for one integer or slice.
The text doesn't always show which of them an index needs. The operation that wrote distinguishes masks and
index tensors from integers and slices. The remaining choice is a guess, which the proof decides.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding
from ...syntax import last_name
from .._candidate import Candidate
from .._syntax import For, Source, is_constant, is_name, is_place, names_in, targets_of
from ..project import Project
from ._aliases import can_bind, shared_name
from ._blocks import assigned_to, fills
from ._inplace import binary
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
        dimensions = 1 if finding.saved is None else len(finding.saved.shape)
        for text, target, form in rewrites(source, statement, dimensions):
            place, index, x = target.value, target.slice, source.code(target.value)
            if form not in _FORMS_OF.get(write.operation or "", (form,)):
                continue
            whole = x if fills(source, statement, place) else ""
            shared = shared_name(source, statement, place)
            title = f"build the new `{x}` with `{form}`"
            guess = form == "index_fill" or (form in _BY_MASK and not _is_mask(source, index))
            # `x[i] += v` runs the same operation whatever its index is; `check` runs none.
            unknown = isinstance(statement, ast.AugAssign) or write.operation not in _FORMS_OF
            if form in ("index_put", "select_scatter") and unknown:
                is_sure = _is_mask if form == "index_put" else _is_int
                guess |= not any(is_sure(source, part) for part in index_parts(index))
            # A registered buffer is better copied where it is saved than bound again by each step.
            kept = isinstance(place, ast.Attribute)
            yield Candidate(title, {path: text}, late=kept, whole=whole, shared_name=shared, guess=guess)


def rewrites(
    source: Source, statement: ast.AST, dimensions: int = 1
) -> Iterator[tuple[str, ast.Subscript, str]]:
    """Yield new texts, the part that was written, and the function that is used. A mask of the tensor's rows
    may have fewer dimensions than the tensor."""
    target = _part(statement)
    if target is None or not is_place(target.value) or not can_bind(source, statement, target.value):
        return
    if isinstance(statement, ast.AugAssign):
        value, is_number = binary(source, statement), False
    else:
        value, is_number = source.code(statement.value), _is_number(statement.value)  # type: ignore[attr-defined]
    x = source.code(target.value)
    by_int = any(_is_int(source, part) for part in index_parts(target.slice))
    for form, code in _forms(source, target, x, value, is_number, dimensions):
        if "\n" not in code and not (by_int and form == "index_put"):
            yield source.replaced({statement: f"{x} = {code}"}), target, form


def _part(statement: ast.AST) -> ast.Subscript | None:
    # `x[0]: Tensor` writes nothing
    targets = targets_of(statement) if getattr(statement, "value", None) else []
    target = targets[0] if len(targets) == 1 else None
    return target if isinstance(target, ast.Subscript) and not is_constant(target.slice, ...) else None


def _forms(
    source: Source, target: ast.Subscript, x: str, v: str, is_number: bool, dimensions: int
) -> Iterator[tuple[str, str]]:
    """Yield the functional forms of ``x[…] = v`` with their code, by the index as it is written."""
    parts = index_parts(target.slice)
    if len(parts) == 1 and not isinstance(parts[0], ast.Slice):
        index = source.code(parts[0])
        if is_number:
            yield "masked_fill", f"{x}.masked_fill({index}, {v})"
            for missing in range(1, dimensions):
                whole = ", ".join([*[":"] * (dimensions - missing), *["None"] * missing])
                yield "masked_fill", f"{x}.masked_fill({source.in_brackets(parts[0])}[{whole}], {v})"
            if source.torch_name:
                yield "torch.where", f"{source.torch_name}.where({index}, {v}, {x})"
            yield "index_fill", f"{x}.index_fill(0, {index}, {v})"
        else:
            yield "index_put", f"{x}.index_put(({index},), {v})"
            yield "select_scatter", f"{x}.select_scatter({v}, 0, {index})"
        return
    if is_number:
        return
    open_ = [n for n, part in enumerate(parts) if not is_everything(part)]
    # An ellipsis hides the dimension (test_scatter.py, test_not_safe_so_untouched).
    if len(open_) != 1 or any(is_constant(part, ...) for part in parts[: open_[0]]):
        if not any(isinstance(part, ast.Slice) or is_constant(part, ...) for part in parts):
            yield "index_put", f"{x}.index_put(({', '.join(map(source.code, parts))}), {v})"
        return
    dim = open_[0]
    part = parts[dim]
    if not isinstance(part, ast.Slice):
        yield "select_scatter", f"{x}.select_scatter({v}, {dim}, {source.code(part)})"
    elif part.step is None:
        ends = ", ".join(source.code(end) if end else "None" for end in (part.lower, part.upper))
        yield "slice_scatter", f"{x}.slice_scatter({v}, {dim}, {ends.removesuffix(', None')})"


def index_parts(index: ast.expr) -> list[ast.expr]:
    return index.elts if isinstance(index, ast.Tuple) else [index]


def is_everything(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice) and not (part.lower or part.upper or part.step)


def _is_number(value: ast.expr) -> bool:
    value = value.operand if isinstance(value, ast.UnaryOp) else value
    if is_name(getattr(value, "func", None), "float") or last_name(value) == "inf":
        return True  # `float("-inf")`, `-math.inf`
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def _is_int(source: Source, node: ast.expr) -> bool:
    """Return whether an index is surely a number of Python's, for which ``index_put`` has no form."""
    match node:
        case ast.BinOp():
            return _is_int(source, node.left) and _is_int(source, node.right)
        case ast.Call():
            return is_name(node.func, "int", "len")
        case ast.Name():
            loops = [n for n in source.nodes if isinstance(n, For) and node.id in names_in(n.target)]
            values = list(assigned_to(source, node.id))
            plain = all(isinstance(v, ast.Constant | ast.Call) and _is_int(source, v) for v in values)
            return bool(loops or values) and plain and all(_counts(loop, node.id) for loop in loops)
    return _is_number(node)


def _counts(loop: For, name: str) -> bool:  # `for i in range(n)`, `for i, x in enumerate(xs)`
    call = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    first = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else None
    return is_name(call, "range") or (is_name(call, "enumerate") and is_name(first, name))


def _is_mask(source: Source, node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression gives truth values: a comparison, or a name that is bound to such ones
    alone; ``seen`` are the names on the way here."""
    match node:
        case ast.Compare():
            return True
        case ast.UnaryOp(op=ast.Invert()):
            return _is_mask(source, node.operand, seen)
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr() | ast.BitXor()):
            return _is_mask(source, node.left, seen) and _is_mask(source, node.right, seen)
        case ast.Call(func=ast.Attribute(attr=method)):
            return method in _TESTS
        case ast.Name() if node.id not in seen:
            values = list(assigned_to(source, node.id))
            return bool(values) and all(_is_mask(source, value, seen | {node.id}) for value in values)
    return False
