"""The program's own words for a saved tensor and for a written one.

``d`` in ``torch.matmul(d, w2)``, ``e`` in ``e = u.exp()``, ``d[:]`` in ``d[:] = 0``. Only words that are
certain from the line, the frames below it and the graph node are given; all others are None.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

from ..derivatives import Reasons, Rule, by_node
from ..model import Extent
from ..source import Instruction, Located, ParsedSource, Stack, is_plumbing
from ..syntax import OPERATORS, is_in_place, last_name, torch_table
from ._live import user_expression
from .callables import LINEAR
from .operands import Edges, Operands, bind_code, imported, is_module, is_torch, operands, out_argument

_LONGEST = 80  # limit in characters, because the line itself is clearer than a longer expression


class Spelling(NamedTuple):
    """A saved tensor's description in the program's words: the fields of a ``Save`` of these names."""

    operation: str | None = None  # its name in torch's derivative table, or the custom Function's class
    expression: str | None = None
    gradient_of: str | None = None
    why: str | None = None
    why_words: str | None = None
    extent: Extent | None = None  # the place of `expression` if it is an operand there; None for a result


def spell(
    node_name: str | None,
    role: str | None,
    stack: Stack,
    *,
    shape: Sequence[int] | None = None,
    edges: Edges | None = None,
    name: str | None = None,
    is_complex: bool = False,
) -> Spelling:
    """Return the program's name for a saved tensor and the reason that backward needs it.

    Args:
        node_name: The backward node, such as ``MmBackward0``.
        edges: Names of the node's ``next_functions``, None for missing ones; left out if they aren't known.
        name: The tensor's name in ``why_words`` if the line shows none: a module path.
    """
    rule = None if node_name is None else by_node(node_name)
    if rule is None or role is None or node_name is None:
        return Spelling(operation=_without_rule(node_name, stack) if rule is None else rule.operation)
    needed = None if edges is None else rule.needed(edges)
    names = _names(rule, role, stack, edges, shape)
    bare = role.partition("[")[0]
    expression = None if names.is_copy else names.texts.get(role) or names.texts.get(bare)
    reasons = Reasons(node_name, role, needed, is_complex=is_complex)
    read_by = reasons.read_for
    gradient_of = names.texts.get(read_by[0]) if len(read_by) == 1 else None
    words = {key: text for key, text in names.texts.items() if key != bare}
    transposed = not names.linear and rule.operation in _MAY_TRANSPOSE
    own = expression or (None if transposed else name or _UNNAMED.get(bare))
    if own is not None:
        words[bare] = own
    linear = _linear_words(rule.operation, role, words, needed, is_complex) if names.linear else None
    return Spelling(
        operation=rule.operation,
        expression=expression,
        gradient_of=gradient_of,
        why=reasons.in_torch_names(),
        why_words=linear if names.linear else reasons.in_names(words),
        extent=None if expression is None else names.extents.get(role if role in names.texts else bare),
    )


_UNNAMED = {"self": "input", "result": "result"}
"""Words in a formula for a tensor without a name of the program's, of which `self` would be one."""


_MAY_TRANSPOSE = ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv")
"""Operations in whose formulas a parameter's path could mean the parameter's transpose."""
_DEFAULTS = {"addmm": {"alpha": "1"}, "clamp": {"min": "-inf", "max": "inf"}}  # of what a call leaves out


def _linear_words(
    operation: str, role: str, words: Mapping[str, str], needed: frozenset[str] | None, is_complex: bool
) -> str | None:
    """Return the reason in the formulas of ``linear``, for ``mm`` or ``addmm`` that ``linear`` ran."""
    renamed = LINEAR.get(operation, {name: name for name in words})
    wanted = None if needed is None else {renamed.get(name, name) for name in needed}
    texts = {renamed[name]: text for name, text in words.items() if name in renamed}
    return Reasons("LinearBackward0", renamed.get(role, role), wanted, is_complex=is_complex).in_names(texts)


def edge_names(node: Any) -> Edges:
    return [None if edge is None else _without_view(edge).name() for edge, _ in node.next_functions]


def _without_view(edge: Any) -> Any:  # of a leaf: torch itself folds only what it has transposed
    inner = edge.next_functions[0][0] if edge.name().startswith("View") else None
    return edge if inner is None or inner.next_functions else inner


def _without_rule(node_name: str | None, stack: Stack) -> str | None:
    """Return ``MyExp`` for a custom Function, and ``exp_`` for a write to a view."""
    if node_name is None or not node_name.endswith("Backward"):
        return operation_at(stack) if node_name == "CopySlices" else None
    return node_name.removesuffix("Backward").rpartition(".")[2] or None


def result_at(stack: Stack) -> str | None:
    """Return the program's text for the result of the stack's operation; None inside of a library."""
    place = user_expression(stack)
    return None if place is None or place[1] else _result_text(place[0])


# --- saved ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Names:
    """Texts by torch's names."""

    texts: Mapping[str, str]
    extents: Mapping[str, Extent | None] = field(default_factory=dict)
    is_copy: bool = False  # whether the node saved a copy of the operand
    linear: bool = False


def _names(rule: Rule, role: str, stack: Stack, edges: Edges | None, shape: Sequence[int] | None) -> _Names:
    """Return the program's texts for the operands and results of the operation that the stack's line ran."""
    place = user_expression(stack)
    if place is None:
        return _Names({})
    located, between = place
    matched = operands(located, between, rule, edges)
    texts = dict(matched.given)
    extents: dict[str, Extent | None] = {}
    for key, node in matched.arguments.items():
        text = _text(node, located.source)
        # A number has no dimensions.
        is_number = isinstance(node, ast.Constant) and bool(shape) and key == "self"
        if text is not None and not is_number:
            texts[key], extents[key] = text, located.source.extent(node)
    for key, attribute in matched.attributes.items():
        called = located.node.func if isinstance(located.node, ast.Call) else None
        if isinstance(called, (ast.Name, ast.Attribute, ast.Subscript)):
            texts[key] = f"{located.source.text(called)}{attribute}"
    results, kept = _result_texts(rule, matched, located), rule.keeps(role)
    if matched.target is None:
        # `h = F.relu(h)` gives two tensors one name: keep it for the tensor that `role` names
        # (tests/unit/explain/test_spelling.py).
        if kept is not None and kept.output:
            texts = {key: text for key, text in texts.items() if text not in results.values()}
        else:
            results = {key: text for key, text in results.items() if text not in texts.values()}
    texts.update(results)
    extents = {key: extent for key, extent in extents.items() if key not in results}
    left = _DEFAULTS.get(rule.operation, {})
    texts |= {key: text for key, text in left.items() if texts.get(key, "None") == "None"}
    # An in-place operation that needs the old value of the tensor it writes saves a copy.
    is_operand = kept is not None and not kept.output and role.partition("[")[0] == "self"
    is_copy = is_operand and matched.target is not None and bool(matched.arguments)
    return _Names(texts, extents, is_copy, matched.linear)


def _result_texts(rule: Rule, matched: Operands, located: Located) -> dict[str, str]:
    """Return the texts of the operation's results: the written target, the variables, or the expression."""
    texts: dict[str, str | None]
    returned = [name for name in rule.returns if name in matched.results]
    # `x.div_(2).tanh_()` wrote `x.div_(2)`, but that is no name for the tensor
    # (tests/unit/explain/test_spelling.py).
    if isinstance(matched.target, (ast.Name, ast.Attribute, ast.Subscript)):
        texts = dict.fromkeys(matched.results, _text(matched.target, located.source))
    elif len(returned) < 2:
        texts = dict.fromkeys(matched.results, _result_text(located))
    else:
        targets = dict(zip(rule.returns, _unpacked(located), strict=False))
        texts = {name: _text(targets[name], located.source) for name in returned if name in targets}
    return {name: text for name, text in texts.items() if text is not None}


def _result_text(located: Located) -> str | None:
    target = _assigned_to(located.statement, located.node)
    if target is not None:
        return _text(target, located.source)
    return _text(located.node, located.source) if isinstance(located.node, ast.expr) else None


def _assigned_to(statement: ast.stmt, node: ast.AST) -> ast.expr | None:
    """Return the variable or attribute that ``statement`` assigns the value of ``node`` to, or None."""
    targets: list[tuple[ast.expr, ast.expr | None]] = []
    if isinstance(statement, ast.Assign):
        targets = [(target, statement.value) for target in statement.targets]
    elif isinstance(statement, ast.AnnAssign):
        targets = [(statement.target, statement.value)]
    targets += [(part.target, part.value) for part in ast.walk(statement) if isinstance(part, ast.NamedExpr)]
    for target, value in targets:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            if len(target.elts) == len(value.elts):
                targets += list(zip(target.elts, value.elts, strict=True))
        # `buffer[i] = x.exp()` copies: the result is another tensor than the buffer's row
        # (tests/unit/explain/test_spelling.py).
        elif value is node and isinstance(target, (ast.Name, ast.Attribute)):
            return target
    return None


def _unpacked(located: Located) -> list[ast.expr]:
    match located.statement:
        case ast.Assign(targets=[ast.Tuple(elts=parts) | ast.List(elts=parts), *_], value=value):
            is_whole = value is located.node and all(isinstance(p, (ast.Name, ast.Attribute)) for p in parts)
            return parts if is_whole else []
    return []


def _text(node: ast.AST, source: ParsedSource) -> str | None:
    text = source.text(node)
    return text if text and len(text) <= _LONGEST else None


def mention(stack: Stack, expression: str | None) -> Extent | None:
    """Return where a name is in the user's expression at ``stack``; None unless it is there just once."""
    place = None if expression is None else user_expression(stack)
    if place is None:
        return None
    located = place[0]
    parts = (node for node in ast.walk(located.node) if isinstance(node, ast.expr))
    same = [node for node in parts if located.source.text(node) == expression]
    return located.source.extent(same[0]) if len(same) == 1 else None


def operation_at(stack: Stack) -> str | None:
    """Return the in-place operation of the innermost call or operator: ``exp_`` for ``y[0].exp_()``."""
    # Modes that only pass the call on, such as unclobber's fingerprints, don't count.
    frames = (frame for frame in zip(stack[::2], stack[1::2], strict=False) if not is_plumbing(frame[0]))
    located = next((Instruction(*frame).located() for frame in frames), None)
    node = None if located is None else located.node
    if isinstance(node, ast.AugAssign):
        return OPERATORS[type(node.op)].in_place
    name = last_name(node.func) if isinstance(node, ast.Call) else ""
    return name if name.endswith("_") else None


# --- written -------------------------------------------------------------------------------------
def spell_write(operation: str, stack: Stack) -> str | None:
    """Return the user's expression for the tensor that an operation wrote: ``d[:]`` in ``d[:] = 0``."""
    place = user_expression(stack)
    if place is None:
        return None
    located, between = place
    target = _written(located, between, operation)
    if isinstance(target, str):
        return target
    # `torch._foreach_add_([x, y], 1)` writes a list one by one, so the written tensor isn't known
    # (tests/unit/explain/test_written.py).
    if target is None or isinstance(target, (ast.List, ast.Tuple)):
        return None
    return _text(target, located.source)


def spell_argument(stack: Stack, position: int) -> str | None:  # `h` of `f(h)`
    place = user_expression(stack)
    call = None if place is None else place[0].node
    args = call.args[: position + 1] if isinstance(call, ast.Call) else []
    if place is None or len(args) <= position or any(isinstance(arg, ast.Starred) for arg in args):
        return None
    return _text(args[position], place[0].source)


def _written(located: Located, between: Sequence[CodeType], operation: str) -> ast.expr | str | None:
    """Return the expression that the located instruction writes, as a node or text; None if not certain."""
    node = located.node
    if not between and isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
        return node
    if isinstance(node, ast.AugAssign) and all(code.co_qualname.startswith("Tensor.__") for code in between):
        return node.target
    if not isinstance(node, ast.Call):
        return None
    out = out_argument(node)
    if out is not None:
        return out
    if not between:
        return _written_directly(node, located.source, operation)
    return _written_through(node, between, located.source, operation)


def _written_directly(node: ast.Call, source: ParsedSource, operation: str) -> ast.expr | None:
    """Return the tensor of an in-place call without a Python frame in between: ``x`` of ``x.add_(1)``."""
    if not is_in_place(last_name(node.func)) or not operation.endswith("_"):
        return None
    if isinstance(node.func, ast.Attribute) and not is_module(node.func.value, source):
        return node.func.value
    is_function = isinstance(node.func, ast.Attribute) or last_name(node.func) in imported(source.tree)
    named = [keyword.value for keyword in node.keywords if keyword.arg == "input"]
    return next(iter([*node.args, *named]), None) if is_function else None


def _written_through(
    node: ast.Call, between: Sequence[CodeType], source: ParsedSource, operation: str
) -> ast.expr | str | None:
    """Return the tensor that a Python function or module of torch's wrote for the call, or None."""
    outer = between[0]
    if not all(is_torch(code) for code in between):
        return None
    if outer.co_filename.replace("\\", "/").endswith("torch/nn/init.py"):
        return (bind_code(node, outer) or {}).get("tensor")
    if operation == "embedding_renorm_":
        return _renormalised(node, outer, source)
    # The function behind `F.threshold` is called `_threshold`.
    can_write = outer.co_qualname.removesuffix(".forward").lstrip("_") in torch_table().inplace
    function = between[-1].co_name.lstrip("_")
    # Dropout in place multiplies by its mask.
    by_dropout = "dropout" in function and operation in ("mul_", "zero_")
    if not can_write or not (by_dropout or operation == _RUNS_IN_PLACE.get(function, f"{function}_")):
        return None
    return (bind_code(node, outer) or {}).get("input")


_RUNS_IN_PLACE = {"relu6": "hardtanh_", "selu": "elu_", "rrelu": "rrelu_with_noise_"}
"""The operations of functions whose in-place version runs one of another name."""


def _renormalised(node: ast.Call, outer: CodeType, source: ParsedSource) -> ast.expr | str | None:
    """Return the weight that ``max_norm`` renormalised: ``emb.weight``, or the ``weight`` argument."""
    if outer.co_qualname == "Embedding.forward":
        is_place = isinstance(node.func, (ast.Name, ast.Attribute, ast.Subscript))
        return f"{source.text(node.func)}.weight" if is_place else None
    return (bind_code(node, outer) or {}).get("weight")
