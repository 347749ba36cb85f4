"""Rules of custom autograd Functions, read from ``forward`` and ``backward``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..syntax import OPERATORS, dotted, torch_table
from ._engine import FileRun
from ._index import FunctionNode, unparsed
from ._rules import HIGH, CheckRule, Suspicion
from ._state import FlowState

_SHAPES = frozenset({"shape", "is_contiguous"})
_CALLED = re.compile(r"\b(?:torch|F)\.(\w+)\((\w+)[,)]")  # a function of torch with its first argument


class FunctionRules:
    """Checks of ``forward`` or ``backward`` of a Function: does it write to tensors that are not its own?"""

    def __init__(self, run: FileRun, cls: ast.ClassDef, node: FunctionNode) -> None:
        """Collect the method's parameters, the values of its names and names that are certainly tensors."""
        self.run = run
        self.cls = cls
        self.nodes = list(ast.walk(node))
        self.text = unparsed(node)
        names = [argument.arg for argument in node.args.args]
        self.ctx = names[0] if names else "ctx"
        self.given = names[1:]
        self.values = [
            (part.id, assignment.value)
            for assignment in self.nodes
            if isinstance(assignment, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
            for target in getattr(assignment, "targets", [getattr(assignment, "target", assignment)])
            for part in ast.walk(target)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)  # `y[i] = 0` only reads `y`
        ]
        saved = [name for name, value in self.values if getattr(value, "attr", "") == "saved_tensors"]
        # Writes to names of other values reach no saved tensor.
        self.rebound = {name for name, value in self.values if getattr(value, "attr", "") != "saved_tensors"}
        self.saved = {*saved} - self.rebound
        self.tensors = {
            n.value.id
            for n in self.nodes
            if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
            if n.attr in _SHAPES or (torch_table().knows(n.attr) and not hasattr(list, n.attr))
        }
        for name, argument in _CALLED.findall(self.text):
            if name.endswith("_like") or any(o.kinds[:1] == ("t",) for o in torch_table().overloads(name)):
                self.tensors.add(argument)

    def forward(self) -> None:
        """Suspect unmarked writes to inputs, tensors kept on ``ctx``, marked ones that aren't returned."""
        returned = [n for n in self.nodes if isinstance(n, ast.Return) and n.value is not None]
        parts = [p for e in returned for p in (e.value.elts if isinstance(e.value, ast.Tuple) else [e.value])]
        results = set(map(_itself, parts))
        marked = {*", ".join(re.findall(r"mark_dirty\(([^)]*)\)", self.text)).split(", ")}
        for statement, name, how, surely in self._writes():
            if (given := self._given(name)) is not None and marked.isdisjoint((given, name)):
                surely |= given in self.tensors
                if surely or how == "[...] =":
                    is_seen = results & self._names_of(given) or self._is_read_again(given)
                    confidence = (HIGH if surely else HIGH - 1) - (not is_seen)
                    self._suspect(CheckRule.UNMARKED, confidence, statement, given, how)
        for assignment in self.nodes:
            match assignment:
                case ast.Assign([ast.Attribute(held, attr), *_], ast.Name(name)) if dotted(held) == self.ctx:
                    if name in self.tensors.intersection(self.given):
                        self._suspect(CheckRule.CTX, HIGH - 1, assignment, name, f"{self.ctx}.{attr}")
        made = [n.value for n in self.nodes if isinstance(n, (ast.Assign, ast.Return))]
        # What an own function was given may be what it returns (`linear_quantize` of distiller).
        calls_own = [call for call in made if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)]
        for name in sorted(marked.difference(_itself(a) for call in calls_own for a in call.args)):
            if not name.isidentifier() or not returned or results & self._names_of(name):
                continue
            wrote = (statement for statement, target, _, _ in self._writes() if target == name)
            self._suspect(CheckRule.DIRTY, HIGH, next(wrote, returned[0]), name, "")

    def _given(self, name: str) -> str | None:  # the parameter that a name is
        own = (each for each in self.given if each not in self.rebound and name in self._names_of(each))
        return next(own, None)

    def _names_of(self, tensor: str) -> set[str]:  # and those whose every value is it: `y = x.mul_(2)`
        return {tensor, *self.rebound.difference(n for n, value in self.values if _itself(value) != tensor)}

    def _is_read_again(self, name: str) -> bool:
        """Return whether the file gives an attribute for an input, or a name that it reads afterwards.

        What gets no gradient, as batch norm's statistics, and a value without a name do no harm.
        """
        at = self.given.index(name)
        gradients = [n.value for n in ast.walk(self.cls) if isinstance(n, ast.Return)]
        if any(isinstance(g, ast.Tuple) and "None" in map(unparsed, g.elts[at : at + 1]) for g in gradients):
            return False
        call = rf"(?:(\w+) = )?\b{self.cls.name}(?:\(\))?\.apply\(([^()]*)\)"
        until_next = r"(?=(.*?)(?:\n *def |\Z))"
        for target, values, after in re.findall(call + until_next, unparsed(self.run.index.tree), re.DOTALL):
            given = "".join(values.split(", ")[at : at + 1])
            if "." in given or (given not in ("", target) and re.search(rf"\b{re.escape(given)}\b", after)):
                return True
        return False

    def backward(self) -> None:
        """Suspect writes to saved tensors and to incoming gradients."""
        for statement, name, how, _ in self._writes():
            if name in self.saved:
                self._suspect(CheckRule.BACKWARD_SAVED, HIGH - 1, statement, name, how)
            elif (given := self._given(name)) is not None:
                self._suspect(CheckRule.GRADIENT, HIGH - 1, statement, given, how)

    def _writes(self) -> Iterator[tuple[ast.stmt, str, str, bool]]:
        """Yield each write: statement, written name, operation, whether only a tensor can be written so."""
        for statement in (node for node in self.nodes if isinstance(node, ast.stmt)):
            value = getattr(statement, "value", None)
            for part in (statement, *(value.elts if isinstance(value, ast.Tuple) else [value])):
                match part:
                    case ast.AugAssign(target=ast.expr() as target, op=op) if not isinstance(op, ast.MatMult):
                        how, surely = f"{OPERATORS[type(op)].symbol}=", False
                    case ast.Assign(targets=[ast.Subscript() as target, *_]):
                        how, surely = "[...] =", False
                    case ast.Call(ast.Attribute(target, how)) if how in torch_table().writes_self:
                        surely = True
                    case _:
                        continue
                while isinstance(target, ast.Subscript):
                    target = target.value
                if name := _itself(target):
                    yield statement, name, how, surely

    def _suspect(self, rule: CheckRule, confidence: int, statement: ast.stmt, name: str, how: str) -> None:
        span = self.run.span(statement)
        self.run.suspect(FlowState(), Suspicion(rule, confidence, span, name=name, how=how))


def _itself(node: ast.expr | None) -> str | None:
    """Return the variable whose tensor an expression is, through in-place methods."""
    writes = torch_table().writes_self
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in writes:
        node = node.func.value
    return node.id if isinstance(node, ast.Name) else None
