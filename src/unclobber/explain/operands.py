"""Maps from the syntax of a call or operator to torch's argument names.

``torch.matmul(d, w2)`` is ``mm`` with ``self`` = ``d`` and ``mat2`` = ``w2``. The frames are gone, so the
values of names aren't known here. An interpretation is taken only if no other is possible; otherwise the
result is None.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import CodeType, ModuleType

import torch

from ..derivatives import Rule
from ..source import Located, ParsedSource
from ..syntax import OPERATORS, dotted, imported_by, last_name, out_of_place
from . import callables
from .callables import RESULT, Form, Roles

# Usual names of torch's modules, for files that don't import them (a notebook imports them in another cell).
_USUAL_MODULES = {"torch": "torch", "th": "torch", "nn": "torch.nn", "F": "torch.nn.functional"}

Nodes = Mapping[str, ast.expr]
Bound = dict[str, ast.expr]
Edges = Sequence[str | None]


@dataclass(frozen=True)
class Operands:
    """The syntax nodes behind an operation's tensors, as far as they are certain."""

    arguments: Nodes = field(default_factory=dict)  # nodes by torch's argument name
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attribute of the called object by role, such as ``.weight`` of ``self.fc``."""
    results: frozenset[str] = frozenset()  # roles that are the expression's own value
    target: ast.expr | None = None
    """The tensor that an in-place operation or ``out=`` wrote: the result under another name."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Arguments that the called function passes by itself: the 2 of ``square``."""
    linear: bool = False  # whether ``linear`` ran the operation


NOTHING = Operands()


def operands(located: Located, between: Sequence[CodeType], rule: Rule, edges: Edges | None) -> Operands:
    """Match the expression at a site with the operation that it ran.

    Args:
        between: Library frames from the user's line to the operation, outermost first, without
            plumbing.
        edges: Names of the node's ``next_functions``; None where unknown.
    """
    node = located.node
    if not between:
        return _direct(node, located.source, rule, edges)
    names = [code.co_qualname for code in between]
    if isinstance(node, ast.BinOp):
        return _reflected(node, names, rule, edges)
    if not all(is_torch(code) for code in between):
        return NOTHING
    if names[0] != "Linear.forward" and names[-1] == "Linear.forward":
        # Deep in other modules no operand has a name, but `linear` still ran the operation.
        return Operands(linear=rule.operation in callables.LINEAR)
    if not isinstance(node, ast.Call):
        return NOTHING
    is_module = names[0].endswith(".forward")
    return _module_call(node, names, rule) if is_module else _python_call(node, between, rule)


def is_torch(code: CodeType) -> bool:
    return code.co_filename.startswith(os.path.join(torch.__path__[0], ""))  # not `torch_geometric`


# --- operators ---------------------------------------------------------------------------------
def _direct(node: ast.AST, source: ParsedSource, rule: Rule, edges: Edges | None) -> Operands:
    """Match an expression that called the operation without a Python frame in between."""
    if isinstance(node, ast.BinOp):
        return _binary(node.op, node.left, node.right, rule, edges)
    if isinstance(node, ast.AugAssign):
        return _augmented(node, rule, edges)
    if isinstance(node, ast.Subscript):
        return _subscript(node, rule)
    if isinstance(node, ast.Call):
        return _call(node, source, rule, edges)
    return NOTHING


def _binary(
    operator: ast.operator, left: ast.expr, right: ast.expr, rule: Rule, edges: Edges | None
) -> Operands:
    """Match a binary operator; `NOTHING` if the operator isn't the rule's operation."""
    if isinstance(operator, ast.MatMult):
        return _matmul(left, right, rule, edges)
    _, operation, second = OPERATORS[type(operator)]
    # `2 ** x` runs `__rpow__`. Without that frame in the stack the left operand is the tensor
    # (tests/unit/explain/test_spelling.py).
    if operation != rule.operation or (rule.operation == "pow" and rule.overload == "Scalar"):
        return NOTHING
    if isinstance(left, ast.Constant) and isinstance(operator, (ast.Mult, ast.Add)):
        left, right = right, left  # `0.5 * x` calls mul(x, 0.5)
    return Operands({"self": left, second: right}, results=frozenset(rule.returns))


def _reflected(node: ast.BinOp, names: Sequence[str], rule: Rule, edges: Edges | None) -> Operands:
    """Match an operator that torch's method of the right operand ran, such as ``2 ** x``."""
    if list(names) == ["Tensor.__rpow__"] and rule.operation == "pow":
        return Operands({"self": node.left, "exponent": node.right}, results=frozenset(rule.returns))
    if list(names) == ["Tensor.__rmatmul__"]:
        return _matmul(node.left, node.right, rule, edges)
    return NOTHING


def _augmented(node: ast.AugAssign, rule: Rule, edges: Edges | None) -> Operands:
    """Match ``target op= value``. Except for ``@=``, the target is also the result."""
    if isinstance(node.op, ast.MatMult):
        # `a @= b` rebinds `a`: the name no longer means the saved tensor
        # (tests/unit/explain/test_spelling.py).
        matched = _matmul(node.target, node.value, rule, edges)
        return Operands({k: v for k, v in matched.arguments.items() if v is not node.target})
    matched = _binary(node.op, node.target, node.value, rule, edges)
    return replace(matched, target=node.target) if matched.arguments else NOTHING


def _subscript(node: ast.Subscript, rule: Rule) -> Operands:
    """Match ``value[slice]``. Only indices that are plain names or attributes have a certain position."""
    if rule.operation not in ("index", "index_put", "index_put_", "_unsafe_index"):
        return NOTHING
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    arguments: dict[str, ast.expr] = {"self": node.value}
    # Slices, None and integers shift the positions, and a mask becomes several indices. So match plain names
    # only: `x[:, mask]` and `w[mask]` in tests/unit/explain/test_spelling.py.
    if all(isinstance(part, (ast.Name, ast.Attribute)) for part in parts):
        arguments.update((f"indices[{i}]", part) for i, part in enumerate(parts))
    return Operands(arguments)


def _matmul(left: ast.expr, right: ast.expr, rule: Rule, edges: Edges | None) -> Operands:
    """Match the operands of ``matmul``, that runs mm, bmm, mv or dot, some on swapped, transposed ones."""
    second = {"mm": "mat2", "bmm": "mat2", "mv": "vec", "dot": "tensor", "matmul": "other"}.get(
        rule.operation
    )
    if second is None or not _in_order(rule, right, edges):
        return NOTHING
    return Operands({"self": left, second: right})


def _in_order(rule: Rule, right: ast.expr, edges: Edges | None) -> bool:
    """Return whether the operands were not swapped. ``W @ x`` with a three-dimensional x swaps them.

    That runs mm on a folded x and ``W.t()``, so the gradient of ``mat2`` leads to a TBackward0. ``u @ x``
    with a vector u runs mv on a folded x. Held by tests/unit/explain/test_spelling.py.
    """
    if rule.operation in ("bmm", "dot", "matmul"):
        return True
    if edges is None or len(edges) != 2:
        return False
    order = rule.differentiable
    if rule.operation == "mm":
        edge = edges[order.index("mat2")]
        return edge != "TBackward0" or (isinstance(right, ast.Call) and last_name(right.func) == "t")
    # A folded x that needs no gradient has no edge, so the order stays unknown.
    edge = edges[order.index("self")]
    return edge is not None and "View" not in edge and "ReshapeAlias" not in edge


# --- calls -------------------------------------------------------------------------------------
def _call(node: ast.Call, source: ParsedSource, rule: Rule, edges: Edges | None) -> Operands:
    """Match a call of a torch function or tensor method that ran the operation without a Python frame."""
    name = last_name(node.func)
    bare = out_of_place(name)
    in_place = bare != name
    bare = callables.ALIASES.get(bare, bare)
    if bare in ("matmul", "__matmul__"):
        bound = bind_call(node, source, Form(("input", "other"), {}, required=2))
        return _matmul(bound["input"], bound["other"], rule, edges) if bound else NOTHING
    form = callables.FUNCTIONS.get(bare)
    if form is None or rule.operation not in form.operations:
        form = _schema_form(rule) if _same_operation(bare, rule) else None
    if form is None:
        return NOTHING
    bound = bind_call(node, source, form)
    if bound is None:
        return NOTHING
    roles = form.operations[rule.operation]
    arguments = _given(roles, bound, rule)
    target = out_argument(node)
    if in_place:
        target = arguments.get("self", arguments.get("input"))
    return Operands(arguments, {}, _results(roles), target, form.given, form is callables.FUNCTIONS["linear"])


def _same_operation(name: str, rule: Rule) -> bool:
    ways = rf"(linalg_)?(special_)?_?{re.escape(name)}"
    return re.fullmatch(ways, rule.operation.rstrip("_")) is not None


def _schema_form(rule: Rule) -> Form:
    """Return the operation's own schema as a form; ``self`` may be passed as ``input=``."""
    roles = {a.name: "input" if a.name == "self" else a.name for a in rule.arguments}
    names = tuple(roles[a.name] for a in rule.arguments if not a.keyword_only)
    required = sum(a.default is None for a in rule.arguments if not a.keyword_only)
    roles.update(dict.fromkeys(rule.returns, RESULT))
    method = ("input", *(name for name in names if name != "input")) if "input" in names else None
    return Form(names, {rule.operation: roles}, method, required)


def out_argument(node: ast.Call) -> ast.expr | None:
    return next((keyword.value for keyword in node.keywords if keyword.arg == "out"), None)


def bind_call(node: ast.Call, source: ParsedSource, form: Form) -> Bound | None:
    """Bind a call's arguments to the form's parameters, as a function or as a method.

    ``a.f(b)`` may be a method of ``a`` or a function of a module ``a``. The file's imports decide, and which
    of the two could have run at all. None if both could.
    """
    as_function = _bind_form(node.args, node.keywords, form.parameters, form.required)
    if isinstance(node.func, ast.Name):
        # A variable that holds a bound method looks the same; only an imported name certainly is a function.
        known = node.func.id in imported(source.tree) or node.func.id in ("abs", "pow", "round")
        return as_function if known else None
    if not isinstance(node.func, ast.Attribute):
        return None
    if is_module(node.func.value, source):
        return as_function
    as_method = _bind_form(
        [node.func.value, *node.args], node.keywords, form.method_parameters or form.parameters, form.required
    )
    if as_function is not None and as_method is not None:
        return None
    return as_method if as_method is not None else as_function


def _bind_form(
    positional: Sequence[ast.expr], keywords: Sequence[ast.keyword], parameters: Sequence[str], required: int
) -> Bound | None:
    """Bind to a torch function whose first argument is a tensor; None if it can't be called so."""
    bound = bind(positional, keywords, parameters)
    if bound is None or not bound.keys() >= set(parameters[:required]):
        return None
    first = bound.get(parameters[0])
    # A literal is no tensor: `x.norm(2)` is not `norm` of 2.
    return None if first is None or _is_literal(first) else bound


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def is_module(node: ast.expr, source: ParsedSource) -> bool:
    """Return whether ``node`` is a module by this file's imports, such as ``torch.nn.functional``."""
    name, dot, attributes = dotted(node).partition(".")
    known = {**_USUAL_MODULES, **imported(source.tree)}
    if name in known:
        return f"{known[name]}{dot}{attributes}" in sys.modules
    main = sys.modules.get("__main__")
    return not dot and isinstance(getattr(main, "__dict__", {}).get(name), ModuleType)


@lru_cache(maxsize=64)
def imported(tree: ast.Module) -> Mapping[str, str]:  # `F` → `torch.nn.functional`
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= imported_by(node)
    return names


# --- calls that went through torch's Python code --------------------------------------------------
def _python_call(node: ast.Call, between: Sequence[CodeType], rule: Rule) -> Operands:
    """Match a call that went through Python functions of torch's (``between``, outermost first)."""
    name, *below = [code.co_qualname for code in between]
    if not set(below) <= callables.NESTED.get(name, frozenset()):
        return NOTHING
    inner = between[-1 if name == "boolean_dispatch.<locals>.fn" else 0]
    roles = _roles(callables.PYTHON_FUNCTIONS.get(inner.co_qualname, {}), rule)
    if roles is None:
        return NOTHING
    bound = bind_code(node, inner) or {}
    arguments = _given(roles, bound, rule)
    inplace = getattr(bound.get("inplace", ast.Constant(False)), "value", None)
    # `inplace=flag` is a run-time value, so the call is matched only if True or False is written out.
    if inplace not in (True, False):
        return NOTHING
    target = arguments.get("self") if inplace else None
    return Operands(arguments, results=_results(roles), target=target)


def bind_code(node: ast.Call, code: CodeType) -> Bound | None:
    """Bind a call to the parameters of the function, or called module's ``forward``, that it ran, or None."""
    called = last_name(node.func)
    name = code.co_name.removeprefix("_")
    parameters = code.co_varnames[: code.co_argcount]
    positional = list(node.args)
    if called.rstrip("_") == name.rstrip("_"):
        if parameters[:1] == ("self",) and isinstance(node.func, ast.Attribute):
            positional.insert(0, node.func.value)
    elif name == "forward":
        positional.insert(0, node.func)
    else:
        return None
    return bind(positional, node.keywords, parameters)


def bind(
    positional: Sequence[ast.expr], keywords: Sequence[ast.keyword], parameters: Sequence[str]
) -> Bound | None:
    """Return the syntax node of each parameter; an unknown keyword stays under its own name.

    ``inspect.Signature`` is no alternative, because it rejects torch's parameter name ``from``
    (``x.uniform_(0, 1)``).

    Returns:
        None if an argument is given twice, unpacked or too many, because then its parameter isn't certain.
    """
    if len(positional) > len(parameters) or any(isinstance(argument, ast.Starred) for argument in positional):
        return None
    bound = dict(zip(parameters, positional, strict=False))
    for keyword in keywords:
        if keyword.arg is None or keyword.arg in bound:
            return None
        bound[keyword.arg] = keyword.value
    return bound


def _module_call(node: ast.Call, names: Sequence[str], rule: Rule) -> Operands:
    """Match the call of one of torch's modules, whose ``forward`` is the first of ``names``."""
    operations, inner = callables.MODULES.get(names[0].removesuffix(".forward"), ({}, set()))
    roles = _roles(operations, rule)
    if roles is None or not set(names[1:]) <= inner:
        return NOTHING
    arguments = _given(roles, bind(node.args, node.keywords, callables.MODULE_ARGUMENTS) or {}, rule)
    return Operands(
        arguments,
        {role: f".{given}" for role, given in roles.items() if given in callables.MODULE_TENSORS},
        _results(roles),
        # Of the operations whose in-place version has a node of its own: `elu_`.
        arguments.get("self") if rule.operation.endswith("_") else None,
        linear=names[0] == "Linear.forward",
    )


def _roles(operations: Mapping[str, Roles], rule: Rule) -> Roles | None:
    return operations.get(rule.operation) or operations.get(out_of_place(rule.operation))


def _given(roles: Mapping[str, str], bound: Bound, rule: Rule) -> dict[str, ast.expr]:
    names = {a.name: a.name for a in rule.arguments if not a.is_tensor and a.name != "self"}
    return {role: bound[given] for role, given in {**names, **roles}.items() if given in bound}


def _results(roles: Mapping[str, str]) -> frozenset[str]:
    return frozenset(role for role, given in roles.items() if given == RESULT)
