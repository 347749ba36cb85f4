"""In-place writes of statements, and the values that they leave, as code that writes nothing."""

from __future__ import annotations

import ast
import keyword
import re
from typing import NamedTuple

from ...syntax import OPERATORS, dotted, is_in_place, last_name, parse_expression, torch_table
from .._syntax import Source, is_constant, is_place, root_name, walk
from .._text import Splice

# Names that end in an underscore but have no out-of-place form.
_NOT_OURS = frozenset(
    {"requires_grad_", "resize_", "resize_as_", "set_", "share_memory_", "apply_", "map_", "rename_",
     "sparse_resize_", "sparse_resize_and_clear_", "retain_grad_", "load_state_dict_", "map2_",
     "embedding_renorm_", "resize_as_sparse_", "clip_grad_norm_", "clip_grad_value_"}
)  # fmt: skip
_LOOSE = (ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Lambda, ast.Await)


def binary(source: Source, statement: ast.AugAssign) -> str:
    """Return ``x + y`` for ``x += y``, the right side in brackets if it needs them."""
    left, right = source.code(statement.target), source.code(statement.value)
    symbol = OPERATORS[type(statement.op)].symbol
    plain = parse_expression(f"({left} {symbol} {right})")
    # Without brackets, `x -= a - b` would become `(x - a) - b`.
    same = isinstance(plain, ast.BinOp) and ast.dump(plain.right) == ast.dump(statement.value)
    enclosed = source.span(statement.value)[0] < source.start(statement.value)
    needs = not enclosed and (not same or isinstance(statement.value, _LOOSE))
    return f"{left} {symbol} ({right})" if needs else f"{left} {symbol} {right}"


def is_inplace_name(name: str) -> bool:  # `import_` only avoids a keyword
    if not is_in_place(name) or name.startswith("_"):
        return False
    return name not in _NOT_OURS and not keyword.iskeyword(name[:-1])


def receiver(node: ast.AST, source: Source) -> ast.expr | None:  # `x` of `x.op_(…)`; not for `torch.relu_(x)`
    func = node.func if isinstance(node, ast.Call) else None
    if not isinstance(func, ast.Attribute) or not is_inplace_name(func.attr):
        return None
    return None if root_name(func.value) in source.imported_names else func.value


class InPlaceCall(NamedTuple):
    """A call or statement that writes in place."""

    value: str  # the value that it leaves in its tensor, as code that writes nothing
    target: ast.expr  # the expression that gives the tensor


def written_by(statement: ast.AST, source: Source) -> InPlaceCall | None:  # nothing else but the write
    if isinstance(statement, ast.AugAssign):
        return InPlaceCall(binary(source, statement), statement.target)
    return in_place(statement.value, source) if isinstance(statement, ast.Expr) else None


def uses_result(source: Source, statement: ast.AST) -> bool:  # of a call that writes in place
    alone = written_by(statement, source) is not None
    return not alone and any(in_place(node, source) is not None for node in walk(statement))


def in_place(node: ast.AST, source: Source) -> InPlaceCall | None:
    """Return a call that writes by its name, by ``inplace=True`` or by ``out=``; None for anything else."""
    if not isinstance(node, ast.Call):
        return None
    if (written := _by_name(node, source)) is not None:
        return written
    if (change := without_inplace(node, source)) is not None:
        return InPlaceCall(source.code(node, change), node.args[0]) if node.args else None
    out = next((argument for argument in node.keywords if argument.arg == "out"), None)
    return None if out is None else InPlaceCall(source.code(node, without(node, out, source)), out.value)


def _by_name(node: ast.Call, source: Source) -> InPlaceCall | None:
    """Return ``x.op_(…)`` or ``torch.op_(x)``, else None.

    A chain of such calls is taken as a whole: ``x.sub_(a).div_(b)`` writes ``x``, the value is
    ``x.sub(a).div(b)``.
    """
    name, torch = last_name(node.func), source.torch_name
    plain = source.renamed(node.func, name.rstrip("_")) if name else None
    # Initialisers of `torch.nn.init` have no other form.
    is_function = root_name(node.func) in source.imported_names and "init" not in dotted(node.func).split(".")
    if plain is not None and node.args and is_function and is_inplace_name(name):
        return InPlaceCall(source.code(node, plain), node.args[0])
    written = receiver(node, source)
    if written is None or plain is None:
        return None
    code = source.code(written)
    # It fills its tensor without reading it, so the out-of-place form starts from a new tensor.
    is_filler, is_part = name in torch_table().overwrites_all, name == "fill_diagonal_"  # no other form
    inner = _by_name(written, source) if isinstance(written, ast.Call) else None
    if inner is not None:
        later = [part for given in (*node.args, *node.keywords) for part in walk(given) if is_place(part)]
        if source.code(inner.target) in map(source.code, later):
            return None  # `t.clamp_(0).div_(t.sum())` reads what the first call has written
        # `x.mul(2).normal_()` fills the result of `mul`, which is new.
        changes = [source.change(written, inner.value), *([] if is_filler or is_part else [plain])]
        return InPlaceCall(source.code(node, *changes), inner.target)
    if name == "zero_" and torch is not None:
        return InPlaceCall(f"{torch}.zeros_like({code})", written)
    if not (is_filler or is_part):
        return InPlaceCall(source.code(node, plain), written)
    fresh = f"{code}.clone()" if torch is None or is_part else f"{torch}.empty_like({code})"
    return InPlaceCall(source.code(node, source.change(written, fresh)), written)


def without_inplace(call: ast.Call, source: Source) -> Splice | None:
    """Return the change that takes the ``inplace=True`` from a call; None if it has none."""
    for argument in call.keywords:
        if argument.arg == "inplace" and is_constant(argument.value, True):
            return without(call, argument, source)
    position = torch_table().inplace.get(last_name(call.func))
    for index, placed in enumerate(call.args):
        if index == position and is_constant(placed, True):
            # Positional arguments follow, so the position must stay filled.
            last = index + 1 == len(call.args)
            return without(call, placed, source) if last else source.change(placed, "False")
    return None


def without(call: ast.Call, gone: ast.expr | ast.keyword, source: Source) -> Splice:
    """Return the change that takes an argument from a call, with its own comment and no other."""
    arguments = sorted([*call.args, *call.keywords], key=source.start)
    at = arguments.index(gone)
    start, end = source.span(gone)
    if at + 1 < len(arguments):
        return Splice(start, source.span(arguments[at + 1])[0], "")
    closing = source.end(call) - 1
    before = source.span(arguments[at - 1])[1] if at else source.text.index("(", source.end(call.func)) + 1
    if "#" not in source.text[before:start]:
        # The comma behind the last argument stays for the one before it, as do the blanks.
        alone = not at and "#" not in source.text[end:closing]
        return Splice(before, closing if alone else end, "")
    # A comment above, or behind the argument before: the argument's own line goes, with its comment.
    behind = re.match(r"\s*,?[ \t]*(#[^\r\n]*)?(\r\n|\r|\n)", source.text[end:closing])
    if behind is None:
        return Splice(start, end, "")
    return Splice(source.at(gone.lineno, 1), end + behind.end(), "")
