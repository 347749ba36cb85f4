"""Source edits for changes: torch's function for a written-out formula, or a checkpoint around a module's
call."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from types import CodeType

from ...model import SpanEdit
from ...source import Located, Stack
from ...syntax import ATOMS, Span, dotted, imported_by
from .. import _places
from .._facts import Edits
from .._trace import ModuleCall, Trace
from ._formulas import Formula

_MOST = 12  # assignments of names to the formula's inputs proposed at most; running finds the right one


def of_formula(formula: Formula) -> Edits:
    """Return each way to write torch's function for a formula, the likeliest first."""
    places = [_expression(operation.stack) for operation in formula.parts[0].operations]
    inside = [place for place in places if place is not None]
    # In one function, because the edit removes statements next to the result.
    if len(inside) < len(places) or len({place.code for place in inside}) != 1:
        return ()
    result = inside[-1]
    if "torch" not in result.modules:
        return ()
    dead = result.only_for([place.node for place in inside])
    # A removed statement binds no name that could be an argument.
    gone = {name for statement in dead for name in _targets(statement)}
    names = [name for name in result.names([result.node, *dead]) if name not in gone]
    call = formula.call.replace("F.", "torch.nn.functional.")
    ways = permutations(names, len(formula.takes))
    return tuple(
        (result.replaced(call.format(*chosen)), *map(result.removed, dead)) for chosen in islice(ways, _MOST)
    )


def of_checkpoint(trace: Trace, calls: Sequence[ModuleCall]) -> Edits:
    """Return the edit to ``checkpoint(block, x)`` from ``block(x)``, if each call is to be checkpointed."""
    edits: dict[tuple[object, ...], SpanEdit] = {}
    for key, call in {_places.key(call.stack): call for call in calls}.items():
        here = {other for other in trace.calls if not other.again and _places.key(other.stack) == key}
        place = _expression(call.stack)
        node = None if place is None else place.call_with_torch
        # Not if another module is called at this line: nn.Sequential calls its children from the line that
        # calls it.
        if place is None or node is None or not here <= set(calls):
            return ()
        # `**options` could hold a keyword that checkpoint() takes for itself.
        if any(keyword.arg is None for keyword in node.keywords):
            return ()
        parts = [place.text_at(part) for part in (node.func, *node.args)]
        named = [f"{keyword.arg}={place.text_at(keyword.value)}" for keyword in node.keywords]
        given = [*parts, *named, "use_reentrant=False"]
        edits[key] = place.replaced(f"torch.utils.checkpoint.checkpoint({', '.join(given)})")
    return (tuple(edits.values()),) if edits else ()


def of_sequential(trace: Trace, parent: ModuleCall, row: Sequence[ModuleCall], pieces: int) -> Edits:
    """Return the edit to ``checkpoint_sequential(blocks, 4, x)`` from ``blocks(x)``, if the row is all of an
    ``nn.Sequential``, which is called once."""
    inside = [call for call in trace.calls if call.parent is parent and not call.again]
    here = [call for call in trace.calls if not call.again and call.stack == parent.stack]
    if len(inside) != len(row) or len(here) != 1:
        return ()
    place = _expression(parent.stack)
    node = None if place is None else place.call_with_torch
    if place is None or node is None or len(node.args) != 1 or node.keywords:
        return ()
    given = f"{place.text_at(node.func)}, {pieces}, {place.text_at(node.args[0])}, use_reentrant=False"
    return ((place.replaced(f"torch.utils.checkpoint.checkpoint_sequential({given})"),),)


def of_conversion(stack: Stack) -> Edits:
    """Return the edit to ``mask`` from ``mask.float()``: without the call that converts or copies."""
    place = _expression(stack)
    node = None if place is None else place.node
    if place is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return ()
    inner = node.func.value
    text = place.text_at(inner)
    # Other expressions need brackets once the method call behind them is gone.
    return ((place.replaced(text if isinstance(inner, ATOMS) else f"({text})"),),)


def _expression(stack: Stack) -> _Expression | None:
    instruction = _places.innermost(stack)
    located = None if instruction is None else instruction.located()
    if instruction is None or located is None or not isinstance(located.node, ast.expr):
        return None
    return _Expression(instruction.code, located.node, located)


@dataclass(frozen=True)
class _Expression:
    """An expression that ran, in its file."""

    code: CodeType
    node: ast.expr
    located: Located

    @property
    def modules(self) -> set[str]:
        imports = [n for n in self.located.source.tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
        return {name for node in imports for name in imported_by(node)}

    @property
    def call_with_torch(self) -> ast.Call | None:  # an edit adds no import
        return self.node if isinstance(self.node, ast.Call) and "torch" in self.modules else None

    def names(self, nodes: Iterable[ast.AST]) -> list[str]:
        read = dict.fromkeys(name for node in nodes for name in _read(node))
        return [name for name in read if name.partition(".")[0] not in self.modules]

    def only_for(self, inside: Sequence[ast.expr]) -> list[ast.stmt]:
        """Return the assignments before the expression whose names are read nowhere but in it."""
        skipped = {id(node) for node in ast.walk(self.node)}
        own = {id(node) for node in inside}
        body = self._block()
        dead: list[ast.stmt] = []
        for statement in reversed(body):
            holds = any(id(node) in own for node in ast.walk(statement))
            # Walked backwards, so that a name read only by a removed statement is dead as well.
            if not holds or not _targets(statement) or statement is self.located.statement:
                continue
            remaining = [node for other in body if other not in dead for node in ast.walk(other)]
            names = [n for n in remaining if isinstance(n, ast.Name) and id(n) not in skipped]
            reads = {name.id for name in names if isinstance(name.ctx, ast.Load)}
            if not reads & set(_targets(statement)):
                dead.append(statement)
        return dead

    def _block(self) -> list[ast.stmt]:
        for node in ast.walk(self.located.source.tree):
            for field in ("body", "orelse", "finalbody"):
                block = getattr(node, field, None)
                if isinstance(block, list) and self.located.statement in block:
                    return block
        return []

    def replaced(self, text: str) -> SpanEdit:
        place = self.located.source.extent(self.node)
        assert place is not None
        return SpanEdit(self.code.co_filename, *place, text)

    def removed(self, statement: ast.stmt) -> SpanEdit:
        return SpanEdit(
            self.code.co_filename, statement.lineno, 1, (statement.end_lineno or statement.lineno) + 1, 1, ""
        )

    def text_at(self, node: ast.expr) -> str:
        return Span.of(node).text(self.located.source.lines)


def _targets(statement: ast.stmt) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)] if len(targets) == 1 else []


def _read(node: ast.AST) -> Iterator[str]:
    """Yield the names and attributes that an expression reads, as source text; no called functions."""
    parts: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, ast.Call):
        # The receiver of a method is read: x of x.mean().
        receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        parts = (*receiver, *node.args, *(keyword.value for keyword in node.keywords))
    elif isinstance(node, (ast.Name, ast.Attribute)) and dotted(node):
        if isinstance(node.ctx, ast.Load):
            yield dotted(node)
        return
    for part in parts:
        yield from _read(part)
