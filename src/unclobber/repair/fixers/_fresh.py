"""Expressions that surely give a tensor of their own: new memory that nothing else holds.

An expression that isn't known here counts as shared. A module or a function of the user's may keep its
result, and so may a forward hook; ``reshape``, ``to``, ``dropout`` and ``nn.Identity`` may return their
argument or a view.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...syntax import last_name, torch_table
from .._syntax import Comprehension, Function, Source, is_constant, is_name, method_call, root_name, walk

_TELLS = frozenset(
    {"backward", "data_ptr", "dim", "element_size", "is_contiguous", "item", "nelement", "numel", "size",
     "storage_offset", "stride", "tolist"}
)  # fmt: skip
"""Methods that return no tensor."""

_PLAIN = frozenset(
    {"abs", "bool", "float", "id", "int", "isinstance", "len", "print", "repr", "round", "str"}
)
"""Python's own functions that keep none of their arguments and return no tensor that they got."""

_CALLED_SO_BY_MODULES = frozenset({"relu", "sigmoid", "tanh", "softmax", "log_softmax", "norm", "prelu"})
"""Methods of tensors that take no tensor: `net.relu(x)` calls a module stored under the name."""
_NEW = ast.Constant | ast.JoinedStr | ast.BinOp | ast.Compare | ast.List | ast.Dict | Comprehension


def is_fresh(value: ast.expr | None, source: Source) -> bool:
    """Return whether an expression has just computed its value, so that no other code holds it.

    The imports of its file decide that ``torch.exp(x)`` is torch's, and ``mine.exp(x)`` is not.
    """
    if value is None or isinstance(value, _NEW):
        return True
    if isinstance(value, ast.UnaryOp):
        return not isinstance(value.op, ast.UAdd)  # `+x` is x itself
    if isinstance(value, ast.IfExp):
        return is_fresh(value.body, source) and is_fresh(value.orelse, source)
    return isinstance(value, ast.Call) and (is_empty_container(value) or computes(value, source))


def is_empty_container(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and not value.args and is_name(value.func, "list", "dict")


def computes(call: ast.Call, source: Source) -> bool:
    """Return whether a call is one of torch's that returns a new tensor and keeps no argument."""
    if not _returns_no_argument(call):
        return False
    if _is_fresh_module(call.func, source):
        return True
    name, root = last_name(call.func), root_name(call.func)
    if name not in torch_table().surely_fresh:
        return False
    if not isinstance(call.func, ast.Attribute) or root in source.imported_names:
        return root in source.names_from_torch
    values = [part.operand if isinstance(part, ast.UnaryOp) else part for part in call.args]
    plain = [isinstance(v, ast.Constant) and not isinstance(v.value, bool | None) for v in values]
    if name in _CALLED_SO_BY_MODULES and not all(plain):
        return False
    return not is_name(call.func.value, "self", "cls")  # `self.exp(x)` is a method of the user's own


def _returns_no_argument(call: ast.Call) -> bool:
    """Return whether torch's function, or the module that torch's class makes, surely returns no argument."""
    position = torch_table().inplace.get(last_name(call.func), len(call.args))
    said = [keyword.value for keyword in call.keywords if keyword.arg == "inplace"]
    return not (
        any(keyword.arg in ("out", None) for keyword in call.keywords)
        or any(isinstance(argument, ast.Starred) for argument in call.args)
        or any(not is_constant(value, False) for value in (*said, *call.args[position : position + 1]))
    )


def _is_fresh_module(module: ast.expr, source: Source) -> bool:
    """Return whether a module is one of torch's own, or a ``Sequential`` of them, whose result is new memory.

    A name counts if everything in the file that binds it constructs such a module.
    """
    if not isinstance(module, ast.Call):
        places = [(of, node) for of in (source, source.notebook) if of for node in of.nodes]
        bound = [binding_at(of, node) for of, node in places if _name(node) == last_name(module)]
        modules = [binding[1] for binding in bound if binding]
        built = [isinstance(value, ast.Call) and _is_fresh_module(value, source) for value in modules]
        return bool(built) and all(built) and "register_forward" not in source.text
    parts = [module, *module.args] if last_name(module.func) == "Sequential" else [module]
    of_torch = all(root_name(getattr(part, "func", part)) in source.names_from_torch for part in parts)
    if len(parts) > 1:
        return of_torch and isinstance(parts[-1], ast.Call) and _is_fresh_module(parts[-1], source)
    kind = last_name(module.func)
    return of_torch and _returns_no_argument(module) and torch_table().is_surely_fresh_module(kind)


def _name(node: ast.AST) -> str | None:
    fields = vars(node)
    return fields.get("id") or fields.get("attr") or fields.get("name") or fields.get("arg")


def keeps_nothing(call: ast.Call, source: Source) -> bool:
    """Return whether a call surely keeps none of its arguments, nor returns one of them."""
    own = _PLAIN if isinstance(call.func, ast.Name) else _TELLS
    return last_name(call.func) in own or computes(call, source)


_UNKNOWN = ast.Name("unknown", ast.Load())  # a value that is not fresh


def binding_at(source: Source, node: ast.AST) -> tuple[ast.AST, ast.expr | None] | None:
    """Return the node that binds a name or attribute, with the value: `_UNKNOWN` if that is a part of one;
    None if the node binds nothing."""
    if isinstance(node, ast.arg | ast.ClassDef | Function):
        return node, _UNKNOWN
    if not isinstance(node, ast.Name | ast.Attribute) or not source.is_bound(node):
        return None
    at: ast.AST = node
    while isinstance(source.parents[at], ast.Tuple | ast.List | ast.Starred):
        at = source.parents[at]
    above = source.parents[at]
    if isinstance(above, ast.AnnAssign | ast.NamedExpr):
        return above, above.value
    if not isinstance(above, ast.Assign):
        return (above if hasattr(above, "lineno") else at), _UNKNOWN
    places: list[ast.AST] = [at]
    values = [above.value]
    if isinstance(at, ast.Tuple) and isinstance(above.value, ast.Tuple):
        places, values = [*at.elts], above.value.elts
    sure = len(above.targets) == 1 and len(places) == len(values) and node in places
    return above, values[places.index(node)] if sure else _UNKNOWN


def is_container(source: Source, statement: ast.AST, place: ast.expr) -> bool:
    """Return whether a name is bound to a list or dict: ``laterals[i - 1] += x`` (``FPN`` of mmdetection)."""
    values = _values_of(source, statement, source.code(place))
    return any(isinstance(value, ast.List | ast.ListComp | ast.Dict | ast.DictComp) for value in values)


def may_be_part(source: Source, statement: ast.AST, code: str) -> bool:
    """Return whether a variable may share another one's memory: it is given, or bound to a name or a view."""
    views = torch_table().returns_views | torch_table().may_return_view
    return any(isinstance(node, ast.arg) and node.arg == code for node in _scope(source, statement)) or any(
        isinstance(value, ast.Name | ast.Subscript | ast.Attribute)
        or (isinstance(value, ast.Call) and last_name(value.func) in views)
        for value in _values_of(source, statement, code)
    )


def detached_from(source: Source, statement: ast.AST, code: str) -> str:  # `y` of `x = y.detach()`
    bases = (method_call(value, "detach") for value in _values_of(source, statement, code))
    return next((f"`{base.id}`" for base in bases if isinstance(base, ast.Name)), "")


def collected_in(source: Source, statement: ast.AST, code: str) -> str:
    """Return the list that gets a variable in each turn of a loop round a write: ``outs.append(x)``."""
    calls = (node for node in walk(source.loop_round(statement) or statement) if isinstance(node, ast.Call))
    lists = (method_call(call, "append") for call in calls if [*map(source.code, call.args)] == [code])
    return next((f"each item of `{source.code(held)}`" for held in lists if held is not None), "")


def _values_of(source: Source, statement: ast.AST, name: str) -> list[ast.expr | None]:
    scope = _scope(source, statement)
    return [bound[1] for node in scope if is_name(node, name) and (bound := binding_at(source, node))]


def _scope(source: Source, statement: ast.AST) -> Iterator[ast.AST]:  # without the functions in it
    own = source.function(statement)
    return (node for node in walk(own or source.tree) if source.function(node) is own)
