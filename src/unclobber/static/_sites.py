"""The places of a tree that may have written to a saved tensor, with what surrounds them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ..syntax import OPERATORS, dotted, last_name, torch_table
from ._index import is_off, is_text
from ._values import SourceSpan

SiteKind = Literal["step", "load", "broadcast", "backward", "item", "operator", "method", "module"]
"""``item`` is ``x[i] = v``, ``operator`` ``x += v``, ``module`` a module or function that writes in place,
``broadcast`` a call of a module whose buffers data parallel training sends to all ranks, or a collective;
``backward`` frees a graph."""
_OPTIMIZER = re.compile(r"opt|adam|sgd|solver|scaler|rmsprop", re.I)
_NO_OPTIMIZER = re.compile(r"sched|lr_|_lr|env|timer|prof|writer|sim|physics|^self$|^super\(", re.I)
_WRITES_FIRST = re.compile("broadcast|all_reduce|_foreach_.*_")  # they write to their first argument
_VIEWS = frozenset(["view", "t", "transpose", "narrow", "squeeze"])
_COUNTS = frozenset(["item", "len", "size", "float", "int", "time", "numpy", "detach", "sum_", "range"])
"""Functions and methods whose result is a number."""


@dataclass(frozen=True, slots=True)
class WriteSite:
    """A statement or call that may write to a tensor in place."""

    path: str
    line: int
    end_line: int
    kind: SiteKind
    how: str  # the operation: `add_`, `+=`, `step`
    target: str  # the written expression without its index, or the optimizer's
    function: str
    loops: int = 0  # number of loops around it
    bumps: int = 1  # number of times that the version counter goes up
    is_off: bool = False  # whether gradients are off there
    index: str = ""  # the index of a part that is written
    span: SourceSpan | None = None  # the whole statement or call; None for one that is only counted


@dataclass(slots=True)
class Scope:
    """A function, or a file's own statements, with its calls in order."""

    path: str
    name: str  # the qualified name: ``Net.forward``
    line: int
    end_line: int
    calls: list[tuple[int, str, str, bool]] = field(default_factory=list)
    """Each call: its line, last name, dotted name, and whether it records no gradients."""
    loops: list[tuple[int, int]] = field(default_factory=list)  # the first and last line of each loop

    @property
    def bare(self) -> str:
        return self.name.rpartition(".")[2]


class FileSites(NamedTuple):
    """The places of one file."""

    sites: list[WriteSite]
    scopes: list[Scope]
    lines: list[str]
    instances: dict[str, set[str]]  # by a name or attribute, the classes or functions that made its values

    def scope(self, line: int) -> Scope:
        """Return the innermost function around a line; the file's own statements if there is none."""
        around = [scope for scope in self.scopes if scope.line <= line <= scope.end_line]
        return max(around, key=lambda scope: scope.line)


def sites_of(tree: ast.Module, text: str, path: str) -> FileSites:
    """Return the places of a file at which a tensor may be written."""
    lines = text.split("\n")
    file = FileSites([], [Scope(path, "<module>", 0, len(lines) + 1)], lines, {})
    _visit(tree, file, file.scopes[0], "", 0, off=False)
    return file


def _visit(node: ast.AST, file: FileSites, scope: Scope, prefix: str, loops: int, *, off: bool) -> None:
    """Collect the places in a node, with the loops and modes around them."""
    match node:
        case ast.ClassDef():
            prefix = f"{prefix}{node.name}."
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            scope = Scope(scope.path, prefix + node.name, node.lineno, node.end_lineno or node.lineno)
            file.scopes.append(scope)
            off, loops, prefix = is_off(node.decorator_list), 0, f"{prefix}{node.name}."
        case ast.For() | ast.While() | ast.AsyncFor():
            loops += 1
            scope.loops.append((node.lineno, node.end_lineno or node.lineno))
        case ast.With() | ast.AsyncWith():
            off = off or is_off([item.context_expr for item in node.items])
        case ast.Assign(value=ast.Call(func=func), targets=[target]):
            file.instances.setdefault(last_name(target), set()).add(last_name(func))
        case ast.Call():
            scope.calls.append((node.lineno, last_name(node.func), dotted(node.func), off))
    for kind, how, name, index, bumps in _writes(node):
        line, column, end, end_column = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        span = SourceSpan(line, column, end, end_column, line, end, scope.name)
        file.sites.append(
            WriteSite(scope.path, line, end, kind, how, name, scope.name, loops, bumps, off, index, span)
        )
    for child in ast.iter_child_nodes(node):
        _visit(child, file, scope, prefix, loops, off=off)


def _writes(node: ast.AST) -> Iterator[tuple[SiteKind, str, str, str, int]]:
    """Yield the kind, operation, target, index and bumps of each write of a node itself."""
    match node:
        case ast.AugAssign(target=target, op=op) if type(op) in OPERATORS and not isinstance(op, ast.MatMult):
            counts = isinstance(op, (ast.Add, ast.Sub)) or not isinstance(node.value, ast.Constant)
            if not (isinstance(target, ast.Name) and counts and _is_count(node.value)):
                index = ast.unparse(target.slice) if isinstance(target, ast.Subscript) else ""
                # A part is taken, changed, and put back; one taken by a mask is a copy.
                masked = any(isinstance(part, ast.Compare) for part in ast.walk(target))
                bumps = 2 if index and not masked else 1
                yield "operator", f"{OPERATORS[type(op)].symbol}=", _base(target), index, bumps
        case ast.Assign(targets=targets):
            for part in [part for given in targets for part in getattr(given, "elts", [given])]:
                if isinstance(part, ast.Subscript) and not is_text(part.slice):
                    yield "item", "[...] =", _base(part), ast.unparse(part.slice), 1
        case ast.Call(func=ast.Attribute(attr="step") as func) if _is_optimizer(func, node):
            yield "step", "step", dotted(func.value) or ast.unparse(func.value), "", 1
        case ast.Call(func=ast.Attribute(attr="backward") as func):
            yield "backward", "backward", dotted(func.value) or ast.unparse(func.value), "", 0
        case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if _WRITES_FIRST.fullmatch(name):
            yield "method" if name.startswith("_") else "broadcast", name, _base(first), "", 1
        case ast.Call(func=ast.Attribute(attr="load_state_dict" | "update_parameters" as name) as func):
            yield "load", name, dotted(func.value), "", 1
        case ast.Call(func=ast.Attribute(attr=name) as func) if name in torch_table().writes_self:
            held, base = dotted(func.value), _base(func.value)
            is_new = base.startswith("torch.")  # `torch.empty(3).normal_()`: nothing has saved it
            if not (held.endswith((".data", "init", ".grad")) or name == "requires_grad_" or is_new):
                yield "method", name, base, "", 1
        case ast.Call(func=func, keywords=keywords):
            if any(k.arg == "inplace" and getattr(k.value, "value", None) is True for k in keywords):
                yield "module", last_name(func), ast.unparse(node.args[0]) if node.args else "", "", 1


def _is_optimizer(func: ast.Attribute, call: ast.Call) -> bool:
    name = ast.unparse(func.value)
    words = " ".join([name, *map(ast.unparse, call.args)])
    return not (_NO_OPTIMIZER.search(name) or call.args[1:] or (call.args and not _OPTIMIZER.search(words)))


def _base(target: ast.expr) -> str:
    while isinstance(target, (ast.Subscript, ast.Call)):
        given = target.args[:1] if isinstance(target, ast.Call) else []
        target = target.value if isinstance(target, ast.Subscript) else target.func
        if isinstance(target, ast.Attribute) and target.attr in _VIEWS:
            target = given[0] if given and dotted(target.value) == "torch" else target.value
    return dotted(target) or ast.unparse(target)  # `x` for `x[0].view(-1)`


def _is_count(node: ast.expr) -> bool:
    """Return whether a value is a number or text, or a call that surely returns one."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, (int, str)) and not isinstance(value, bool)
        case ast.List() | ast.Tuple() | ast.JoinedStr() | ast.ListComp():
            return True
        case ast.Call(func=func):
            return last_name(func) in _COUNTS
        case ast.BinOp(left=left, right=right):
            return _is_count(left) or (_is_count(right) and isinstance(left, ast.Constant))
        case ast.Subscript(value=value):
            return last_name(value) in ("shape", "size")
    return False
