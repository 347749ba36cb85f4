"""A text as a syntax tree that can be edited without touching anything else.

LibCST keeps every blank and comment, so only a replaced node changes. Positions are 1-based lines and 0-based
columns in characters, as in LibCST; ``Site`` columns are 1-based.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any, TypeVar

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from ..model import Site
from ..syntax import imported_by

N = TypeVar("N", bound=cst.CSTNode)
New = Any
"""A node, a ``FlattenSentinel`` or ``RemoveFromParent()``."""


@dataclasses.dataclass(frozen=True)
class Source:
    """A version of a text, with its tree."""

    text: str
    module: cst.Module
    positions: Mapping[cst.CSTNode, CodeRange]
    parents: Mapping[cst.CSTNode, cst.CSTNode]
    smalls: tuple[cst.BaseSmallStatement, ...] = ()

    # --- find -----------------------------------------------------------------------------------

    def statement(self, line: int, column: int | None = None) -> cst.BaseSmallStatement | None:
        """Return the simple statement at a line (and 1-based column); None if there isn't exactly one."""
        covering = [node for node in self.smalls if _covers(self.positions[node], line, column)]
        return covering[0] if len(covering) == 1 else None

    def statement_of(self, site: Site) -> cst.BaseSmallStatement | None:
        """Return the simple statement that contains a site, or None."""
        return self.statement(site.line, site.column) or self.statement(site.line)

    def in_header(self, line: int) -> cst.BaseExpression | None:
        """Return the expression in the header of an ``if``, ``while`` or ``for`` on a line; None if there is
        none."""
        for node, place in self.positions.items():
            if isinstance(node, (cst.If, cst.While, cst.For)) and place.start.line <= line:
                value = node.iter if isinstance(node, cst.For) else node.test
                if line <= self.positions[value].end.line:
                    return value
        return None

    def expressions(self, site: Site) -> list[cst.BaseExpression]:
        """Return all expressions inside a site's span, outermost first."""
        start, end = (site.line, site.column - 1), (site.end_line, site.end_column - 1)
        ordered: list[tuple[tuple[int, int], tuple[int, int], int, cst.BaseExpression]] = []
        for node, place in self.positions.items():
            if isinstance(node, cst.BaseExpression):
                begin, stop = (place.start.line, place.start.column), (place.end.line, place.end.column)
                if start <= begin and stop <= end:
                    ordered.append((begin, (-stop[0], -stop[1]), len(ordered), node))
        return [node for *_, node in sorted(ordered, key=lambda item: item[:3])]

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of a node."""
        return self.module.code_for_node(node)

    def above(self, node: cst.CSTNode, kind: type[N]) -> N | None:
        """Return the nearest node of a kind around ``node``, or None."""
        at: cst.CSTNode | None = self.parents.get(node)
        while at is not None and not isinstance(at, kind):
            at = self.parents.get(at)
        return at

    def loop_round(self, node: cst.CSTNode) -> cst.For | cst.While | None:
        """Return the nearest ``for`` around ``node``, else the nearest ``while``, or None."""
        return self.above(node, cst.For) or self.above(node, cst.While)

    def start(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the line, 1-based, and the column, 0-based, of a node's first character."""
        start = self.positions[node].start
        return start.line, start.column

    def all_above(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around ``node``, nearest first."""
        at = self.parents.get(node)
        while at is not None:
            yield at
            at = self.parents.get(at)

    # --- edit -----------------------------------------------------------------------------------

    def replaced(self, changes: Mapping[cst.CSTNode, New]) -> str:
        """Return the text with the nodes in `changes` replaced.

        Only the nodes above a change and the text of its top-level statement are made again, because a visit
        of the tree makes every node again: that took 12 s for the candidates of one file of 300 lines.
        """
        news = {id(node): new for node, new in changes.items()}
        above = {id(node) for changed in changes for node in (changed, *self.all_above(changed))}
        module: cst.Module = _rebuilt(self.module, news, above)
        # A statement's own code ends in a newline, which the module's then lacks.
        if not module.has_trailing_newline:
            return module.code
        parts = (*module.header, *module.body, *module.footer)
        return "".join(self._codes.get(id(part)) or self.code(part) for part in parts) or module.code

    @cached_property
    def _codes(self) -> dict[int, str]:
        """The texts of the module's top-level statements by the `id` of the node."""
        return {id(statement): self.code(statement) for statement in self.module.body}

    def with_statement(self, old: cst.CSTNode, code: cst.BaseSmallStatement) -> str:
        """Return the text with one simple statement replaced by another."""
        return self.replaced({old: code.with_changes(semicolon=getattr(old, "semicolon", None))})

    def own_line(self, small: cst.CSTNode) -> cst.SimpleStatementLine | None:
        """Return the line with this statement alone; None if it shares its line."""
        line = self.parents[small]
        if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
            return line
        return None

    def inserted(
        self, small: cst.CSTNode, before: Sequence[str] = (), after: Sequence[str] = ()
    ) -> str | None:
        """Return the text with lines inserted directly before or after a statement.

        If the statement shares its line, they go on that line. None if they don't fit there, or if it is part
        of a header.
        """
        if not isinstance(small, cst.BaseSmallStatement):
            return None
        line = self.own_line(small)
        if line is not None:
            return self.replaced({line: self.surrounded(line, before, after)})
        new = [self.parsed(code) for code in (*before, *after)]
        if not all(isinstance(added, cst.SimpleStatementLine) for added in new):
            return None
        smalls = [inner for added in new for inner in added.body]
        # The last statement of a line has no semicolon, which it needs before further ones (test_clones.py,
        # test_a_line_that_is_shared).
        alone = small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        own = small if not after else alone
        return self.replaced(
            {small: cst.FlattenSentinel([*smalls[: len(before)], own, *smalls[len(before) :]])}
        )

    def put_round(self, small: cst.CSTNode, make: Callable[[Any], Any]) -> Iterator[str]:
        """Yield texts with a statement inside a block of its own.

        If it shares its line, first with the whole line inside, then with the line taken apart.

        Args:
            make: Makes the block from the line that goes into it.
        """
        above = self.parents[small]
        if isinstance(above, cst.SimpleStatementLine):
            yield self.replaced({above: _framed(above, make(above.with_changes(leading_lines=())))})
        # A body on its header's line has no line to put a block on (test_structural_fixers.py,
        # test_a_body_on_its_headers_line_under_no_grad).
        elif isinstance(above, cst.SimpleStatementSuite):
            line = cst.SimpleStatementLine(above.body, trailing_whitespace=above.trailing_whitespace)
            yield self.replaced({above: cst.IndentedBlock([make(line)])})
        if isinstance(above, cst.SimpleStatementLine) and len(above.body) > 1:
            at = next(n for n, statement in enumerate(above.body) if statement is small)
            yield self.replaced({above: _apart(above, at, make)})

    def surrounded(
        self, line: cst.SimpleStatementLine, before: Sequence[str] = (), after: Sequence[str] = ()
    ) -> New:
        """Return the replacement of a line by itself and further lines; comments above stay above
        them all."""
        new = [self.parsed(code) for code in before]
        if new:
            new[0] = new[0].with_changes(leading_lines=line.leading_lines)
            line = line.with_changes(leading_lines=())
        return cst.FlattenSentinel([*new, line, *(self.parsed(code) for code in after)])

    def parsed(self, code: str) -> Any:
        """Return a statement from text, in the style of this module."""
        return cst.parse_statement(code, config=self.module.config_for_parsing)

    @cached_property
    def _imports(self) -> dict[str, str]:
        """The names that imports anywhere in the text bind, with their full names."""
        nodes = ast.walk(ast.parse(self.text))
        imports = (node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)))
        return {name: full for node in imports for name, full in imported_by(node).items()}

    @cached_property
    def torch_name(self) -> str | None:
        """The text's name of the torch package; None if it doesn't import torch."""
        return next((name for name, full in self._imports.items() if full == "torch"), None)

    @cached_property
    def imported_names(self) -> frozenset[str]:
        """The names that imports anywhere in the text bind."""
        return frozenset(self._imports)

    @cached_property
    def names_from_torch(self) -> frozenset[str]:
        """Imported names that are torch, a part of it or an object in it: ``torch``, ``nn``, ``F``."""
        return frozenset(n for n, full in self._imports.items() if full.partition(".")[0] == "torch")


def parse(text: str) -> Source | None:
    """Return the tree of a text; None if LibCST can't parse it or would not reproduce it exactly."""
    try:
        module = cst.parse_module(text)
        if module.code != text:
            return None
        # No copy, because fixers compare nodes by identity.
        wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
        positions = wrapper.resolve(PositionProvider)
        parents = {child: node for node in walk(module) for child in _children(node)}
    except (cst.ParserSyntaxError, cst.CSTValidationError, RecursionError, UnicodeError, ValueError):
        return None
    smalls = tuple(node for node in positions if isinstance(node, cst.BaseSmallStatement))
    return Source(text, module, positions, parents, smalls)


def why_not_parsed(text: str) -> str:
    """Return why ``parse`` returns None for a text that Python can run, as a clause."""
    lines = text.split("\n")
    number = next((n for n, line in enumerate(lines, 1) if line.lstrip(" \t").startswith("\f")), None)
    if number is not None:
        return f"LibCST, which would rewrite it, would not give back the form feed of line {number}"
    return "LibCST, which would rewrite it, does not give it back as it is"


def expression(code: str) -> cst.BaseExpression:
    """Return an expression from text."""
    return cst.parse_expression(code)


def assignment(target: cst.BaseExpression, value: cst.BaseExpression) -> cst.Assign:
    """Return the statement ``target = value``."""
    return cst.Assign([cst.AssignTarget(target.deep_clone())], value)  # type: ignore[arg-type]


def in_brackets(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return ``node``, in brackets if a following dot needs them."""
    if node.lpar or isinstance(node, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def is_place(node: cst.CSTNode) -> bool:
    """Return whether ``node`` is a name or a dotted path of names, which can be assigned, and read without
    effect."""
    while isinstance(node, cst.Attribute):
        # These give a view, or a tensor other than their owner's, so the path is no place to bind a result
        # to.
        if node.attr.value in ("data", "grad", "T", "mT", "H", "mH", "real", "imag"):
            return False
        node = node.value
    return isinstance(node, cst.Name)


def root_place(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the name or path that holds the tensor which ``node`` is a part of: ``x`` of ``x[i].t()[0]``.
    None if there is none."""
    while not is_place(node):
        if isinstance(node, (cst.Subscript, cst.Attribute)):
            node = node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            node = node.func.value
        else:
            return None
    return node


def root_name(node: cst.CSTNode) -> str | None:
    """Return the first name of a dotted path, or None."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else None


def called_name(func: cst.BaseExpression) -> str:
    """Return the last name of a called path, ``relu`` of ``torch.relu``; empty for any other expression."""
    if isinstance(func, cst.Attribute):
        return func.attr.value
    return func.value if isinstance(func, cst.Name) else ""


def calls(node: cst.CSTNode, names: Container[str]) -> Iterator[cst.Call]:
    """Yield the calls of methods or functions of some names anywhere in ``node``."""
    return (inner for inner in walk(node) if isinstance(inner, cst.Call) and called_name(inner.func) in names)


def single_target(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the target of an assignment that has one, else None."""
    return node.targets[0].target if isinstance(node, cst.Assign) and len(node.targets) == 1 else None


def is_name(node: cst.CSTNode | None, *names: str) -> bool:
    """Return whether a node is one of these plain names."""
    return isinstance(node, cst.Name) and node.value in names


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and all nodes below it, in source order."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(_children(node)))


def _children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the direct children of `node`, because `node.children` makes `node` again: ten times as long."""
    children: list[cst.CSTNode] = []
    for name in _fields(type(node)) or _noted_fields(node):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            children.append(value)
        elif isinstance(value, (list, tuple)):
            children += [child for child in value if isinstance(child, cst.CSTNode)]
    return children


_field_names: dict[type[cst.CSTNode], tuple[str, ...]] = {}
_fields = _field_names.get


def _noted_fields(node: cst.CSTNode) -> tuple[str, ...]:
    """Note and return the fields of the class of `node` in the order in which LibCST visits them."""
    visited = _FieldOrder(node)
    node.visit(visited)
    names = dict.fromkeys([*visited.names, *(field.name for field in dataclasses.fields(node))])
    return _field_names.setdefault(type(node), tuple(names))


class _FieldOrder(cst.CSTVisitor):
    def __init__(self, node: cst.CSTNode) -> None:
        super().__init__()
        self._node = node
        self.names: list[str] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node is self._node

    def on_visit_attribute(self, node: cst.CSTNode, attribute: str) -> None:
        self.names.append(attribute)


def names_in(node: cst.CSTNode) -> set[str]:
    """Return all names that are read or written in ``node``, without attribute names."""
    names: set[str] = set()
    stack = [node]
    while stack:
        at = stack.pop()
        if isinstance(at, cst.Name):
            names.add(at.value)
        elif isinstance(at, (cst.Attribute, cst.Arg)):
            stack.append(at.value)
        else:
            stack.extend(_children(at))
    return names


def _framed(line: cst.SimpleStatementLine, block: Any) -> Any:
    return block.with_changes(leading_lines=line.leading_lines)


def _apart(line: cst.SimpleStatementLine, at: int, make: Callable[[Any], Any]) -> New:
    """Return a line of several statements as up to three parts: those before, a block of the one at ``at``,
    those after.

    The comment at its end stays with the last part.
    """
    parts: list[Any] = []
    for smalls in (line.body[:at], line.body[at : at + 1], line.body[at + 1 :]):
        if not smalls:
            continue
        last = smalls[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        part: Any = cst.SimpleStatementLine([*smalls[:-1], last])
        if smalls[-1] is line.body[-1]:
            part = part.with_changes(trailing_whitespace=line.trailing_whitespace)
        parts.append(make(part) if smalls[0] is line.body[at] else part)
    parts[0] = _framed(line, parts[0])
    return cst.FlattenSentinel(parts)


def _rebuilt(node: Any, changes: Mapping[int, New], above: Set[int]) -> Any:
    """Return `node` with `changes` (by `id`) made in it; a node that is not in `above` has none below it."""
    if id(node) not in above:
        return node
    fields: dict[str, Any] = {}
    for field_ in dataclasses.fields(node):
        value = getattr(node, field_.name)
        if isinstance(value, (list, tuple)):
            if any(id(child) in above for child in value):
                fields[field_.name] = list(_spread(_rebuilt(child, changes, above) for child in value))
        elif id(value) in above:
            fields[field_.name] = _rebuilt(value, changes, above)
    updated = node.with_changes(**fields) if fields else node
    new = changes.get(id(node), updated)
    return new(updated) if isinstance(new, _Late) else new


def _spread(children: Iterable[New]) -> Iterator[cst.CSTNode]:
    """The nodes of a sequence of which some were removed or replaced by several."""
    for child in children:
        if isinstance(child, cst.FlattenSentinel):
            yield from child
        elif not isinstance(child, cst.RemovalSentinel):
            yield child


class _Late:
    """A replacement made from the node after its children were replaced."""

    def __init__(self, make: Callable[[Any], New]) -> None:
        self._make = make

    def __call__(self, updated: Any) -> New:
        return self._make(updated)


def late(make: Callable[[Any], New]) -> New:
    """Return a change for ``Source.replaced`` that builds on the changes below the node."""
    return _Late(make)


def _covers(place: CodeRange, line: int, column: int | None) -> bool:
    """Return whether a range covers a 1-based line and column, or the line if ``column`` is None."""
    if not place.start.line <= line <= place.end.line:
        return False
    if column is None:
        return True
    at = (line, column - 1)
    return (place.start.line, place.start.column) <= at < (place.end.line, place.end.column)
