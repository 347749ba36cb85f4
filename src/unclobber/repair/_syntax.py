"""A text with its syntax tree, whose nodes can be edited without touching anything else.

An edit replaces the characters of nodes, so every blank and comment round them stays. Positions are offsets
into the text, in characters; the lines and columns of a ``Site`` are 1-based.
"""

from __future__ import annotations

import ast
import itertools
import keyword
import re
import tokenize
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeGuard

from ..model import Site
from ..syntax import ATOMS, dotted, imported_by, last_name, torch_table
from ..syntax import parse as parse_module
from ._text import Splice, lines_in, spliced

Function = ast.FunctionDef | ast.AsyncFunctionDef
For = ast.For | ast.AsyncFor
Loop = ast.For | ast.AsyncFor | ast.While
With = ast.With | ast.AsyncWith
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_COMPOUND = Function | ast.ClassDef | ast.If | Loop | With | ast.Try | ast.TryStar | ast.Match
_WITHOUT_PLACE = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)
"""Nodes of which the parser has one for a whole text, so that they have no parent of their own."""
_IDLE = re.compile(r"[ \t\f]*(#|\r|\n)")  # a line without code
_JOINED = re.compile(r"[^#]*\\\r?\n")  # a line that a backslash joins to the next one


class Line(NamedTuple):
    """The simple statements of one line, or one compound statement."""

    statements: list[ast.stmt]
    above: int  # offset at which the blank lines and comments above it begin
    start: int  # offset of its first line's first character
    end: int  # offset behind its line end
    indent: str
    in_header: bool  # whether it stands behind the colon of a compound statement


@dataclass(frozen=True)
class Source:
    """A version of a text, with its tree."""

    text: str
    tree: ast.Module
    notebook: Source | None = None  # all cells of the notebook that the text is a cell of

    # --- find -----------------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(walk(self.tree))

    @cached_property
    def parents(self) -> Mapping[ast.AST, ast.AST]:
        return {child: node for node in self.nodes for child in _children(node)}

    @cached_property
    def smalls(self) -> tuple[ast.stmt, ...]:
        return tuple(filter(is_small, self.nodes))

    def statement(self, line: int, column: int | None = None) -> ast.stmt | None:
        covering = [small for small in self.smalls if small.lineno <= line <= _end_line(small)]
        if column is not None:
            at = self.at(line, column)
            covering = [small for small in covering if self.start(small) <= at < self.end(small)]
        return covering[0] if len(covering) == 1 else None  # None if there isn't exactly one

    def in_header(self, line: int) -> ast.expr | None:
        headers = (node for node in self.nodes if isinstance(node, ast.If | Loop | ast.withitem))
        names = ("test", "iter", "context_expr")
        values = (getattr(node, name, None) for node in headers for name in names)
        return next((value for value in values if value and value.lineno <= line <= _end_line(value)), None)

    def expressions(self, site: Site) -> list[ast.expr]:
        """Return all expressions inside a site's span, outermost first."""
        first, last = self.at(site.line, site.column), self.at(site.end_line, site.end_column)
        here = (node for node in self.nodes if isinstance(node, ast.expr) and node.lineno >= site.line)
        near = (node for node in here if _end_line(node) <= site.end_line)
        inside = (node for node in near if first <= self.start(node) and self.end(node) <= last)
        return sorted(inside, key=lambda node: (self.start(node), -self.end(node)))

    def call_at(self, site: Site) -> ast.Call | None:  # the call that a site spans exactly
        inside = [node for node in self.expressions(site)[:1] if isinstance(node, ast.Call)]
        end = self.at(site.end_line, site.end_column)
        return next((call for call in inside if self.end(call) == end), None)

    def above(self, node: ast.AST, *kinds: type[ast.AST]) -> Any:
        return next((above for above in self.all_above(node) if isinstance(above, kinds)), None)

    def function(self, node: ast.AST) -> Function | None:
        function: Function | None = self.above(node, ast.FunctionDef, ast.AsyncFunctionDef)
        return function

    def loop_round(self, node: ast.AST) -> Loop | None:
        loop: Loop | None = self.above(node, ast.For, ast.AsyncFor, ast.While)
        return loop

    def all_above(self, node: ast.AST) -> Iterator[ast.AST]:
        while (above := self.parents.get(node)) is not None:
            yield above
            node = above

    def statements_round(self, node: ast.AST) -> Iterator[ast.stmt]:  # itself, too, innermost first
        return (at for at in (node, *self.all_above(node)) if isinstance(at, ast.stmt))

    def is_bound(self, node: ast.Name | ast.Attribute) -> bool:  # `x += 1` reads it, too
        return isinstance(node.ctx, ast.Store) and not isinstance(self.parents[node], ast.AugAssign)

    def block(self, node: ast.AST) -> list[ast.stmt]:  # of the statement that it is, or is a part of
        statement = next(self.statements_round(node))
        blocks = (getattr(self.parents[statement], name, []) for name in ("body", "orelse", "finalbody"))
        return next(block for block in blocks if statement in block)

    def line(self, statement: ast.stmt) -> Line:
        """Return the line of a statement."""
        block = self.block(statement)
        first = last = block.index(statement)
        while first and _end_line(block[first - 1]) >= self._first_line(block[first]):
            first -= 1
        while last + 1 < len(block) and self._first_line(block[last + 1]) <= _end_line(block[last]):
            last += 1
        decorators = getattr(block[first], "decorator_list", [])
        number = min(self._first_line(node) for node in (block[first], *decorators))
        start = self._starts[number - 1]
        lead = self.text[start : self.start(block[first])]
        indent = self.text[start : start + len(lead) - len(lead.lstrip())]
        top = number
        lowest = _end_line(block[first - 1]) if first else getattr(self.parents[statement], "lineno", 0)
        while top - 1 > lowest and self._is_idle(top - 1, indent):
            top -= 1
        end = self.line_end(block[last])
        in_header = bool(lead.strip()) and not decorators
        return Line(block[first : last + 1], self._starts[top - 1], start, end, indent, in_header)

    def _first_line(self, node: ast.stmt | ast.expr) -> int:  # a backslash joins lines
        number = node.lineno
        while number > 1 and _JOINED.match(self._lines[number - 2]):
            number -= 1
        return number

    def small(self, node: ast.AST) -> ast.AST | None:
        return next((above for above in self.all_above(node) if is_small(above)), None)

    def own_line(self, small: ast.AST) -> Line | None:
        line = self.line(small) if is_small(small) else None
        return line if line is not None and len(line.statements) == 1 and not line.in_header else None

    def _is_idle(self, number: int, indent: str) -> bool:  # a comment further in belongs to the block before
        line = self._lines[number - 1]
        return _IDLE.match(line) is not None and not line.startswith((f"{indent} ", f"{indent}\t"))

    # --- places ---------------------------------------------------------------------------------

    @cached_property
    def _lines(self) -> list[str]:
        return lines_in(self.text)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *itertools.accumulate(map(len, self._lines))]

    def _offset(self, line: int, column: int) -> int:  # in bytes, as `ast` counts
        text = self._lines[line - 1]
        if not text.isascii():
            column = len(text.encode()[:column].decode())
        return self._starts[line - 1] + column

    def at(self, line: int, column: int) -> int:  # as a `Site` counts; the text's end beyond it
        return self._starts[min(line, len(self._starts)) - 1] + column - 1

    def start(self, node: ast.AST) -> int:
        at: Any = node
        return self._offset(at.lineno, at.col_offset)

    def end(self, node: ast.AST) -> int:
        at: Any = node
        return self._offset(at.end_lineno, at.end_col_offset)

    def line_end(self, node: ast.stmt | ast.expr) -> int:
        return self._starts[_end_line(node)]

    def span(self, node: ast.AST) -> tuple[int, int]:  # with the parentheses round it alone
        span = self.start(node), self.end(node)
        while isinstance(node, ast.expr) and span in self._parentheses:
            span = self._parentheses[span]
        return span

    @cached_property
    def _parentheses(self) -> dict[tuple[int, int], tuple[int, int]]:
        """The span of each pair of parentheses that only groups, by the span of what it holds."""
        pairs: dict[tuple[int, int], tuple[int, int]] = {}
        opened: list[tuple[int, bool, int]] = []
        calls, last, fresh = False, 0, False
        for token in tokenize.generate_tokens(iter(self._lines).__next__):
            if token.type in (tokenize.COMMENT, tokenize.NL):
                continue
            start, end = (self._starts[line - 1] + column for line, column in (token.start, token.end))
            if fresh:
                opened[-1] = (*opened[-1][:2], start)
            fresh = token.string in ("(", "[", "{") and token.type == tokenize.OP
            if fresh:
                opened.append((start, token.string == "(" and not calls, start))
            elif token.string in (")", "]", "}") and token.type == tokenize.OP:
                begin, groups, first = opened.pop()
                if groups:
                    pairs[first, last] = begin, end
            name = token.type == tokenize.NAME and not keyword.iskeyword(token.string)
            calls = name or token.string in (")", "]", "}") or token.type == tokenize.STRING
            last = end
        return pairs

    # --- edit -----------------------------------------------------------------------------------

    def change(self, node: ast.AST, code: str) -> Splice:
        """Return the change of a node's code; a comment behind it keeps its column as far as it can."""
        start, end = self.span(node)
        blank = re.compile(r" {3,}(?=#)").match(self.text, end)
        room = 0 if blank is None else len(blank[0]) - 2
        return Splice(start, end + max(0, min(len(code) - (end - start), room)), code)

    def renamed(self, node: ast.AST, name: str) -> Splice:
        end = self.end(node)
        return Splice(end - len(last_name(node)), end, name)

    def edited(self, *changes: Splice) -> str:
        return spliced(self.text, changes)

    def replaced(self, changes: Mapping[ast.AST, str]) -> str:
        return self.edited(*(self.change(node, code) for node, code in changes.items()))

    def code(self, node: ast.AST, *changes: Splice) -> str:
        start, end = self.span(node)
        inside = (Splice(first - start, last - start, code) for first, last, code in changes)
        return spliced(self.text[start:end], inside)

    def in_brackets(self, node: ast.expr) -> str:
        code = self.code(node)
        return code if isinstance(node, ATOMS) or self.span(node)[0] < self.start(node) else f"({code})"

    def inserted(self, small: ast.AST, *changes: Splice, before: str = "", after: str = "") -> Iterator[str]:
        """Yield the text with a statement put directly before or after a simple one, or an expression's, and
        changes in that.

        If that shares its line, the new one goes on that line. Nothing if it doesn't fit there, or if the
        simple one is part of a header.
        """
        small = next(self.statements_round(small))
        line = self.own_line(small)
        if line is not None:
            yield self.edited(
                Splice(line.start, line.start, self.lines_of(before, line.indent)),
                *changes,
                self.behind(line, self.lines_of(after, line.indent)),
            )
        elif is_small(small) and "\n" not in before + after:
            start, end = self.start(small), self.end(small)
            above, below = (
                Splice(start, start, before and f"{before}; "),
                Splice(end, end, after and f"; {after}"),
            )
            yield self.edited(above, *changes, below)

    def lines_of(self, code: str, indent: str) -> str:
        lines = code.split("\n") if code else ()
        return "".join(f"{indent}{line}{self.newline}" for line in lines)

    def behind(self, line: Line, lines: str) -> Splice:
        if lines and not self.text[: line.end].endswith(("\n", "\r")):  # the text's last line
            lines = self.newline + lines.removesuffix(self.newline)
        return Splice(line.end, line.end, lines)

    def removed(self, line: Line) -> Splice:
        return Splice(line.above, line.end, "")  # with the comments above it

    def first_in(self, function: Function, code: str) -> Splice | None:
        first = self.line(function.body[0])
        if first.in_header:
            return None
        lines = self.lines_of(code, first.indent)
        documented = ast.get_docstring(function, clean=False) is not None
        return self.behind(first, lines) if documented else Splice(first.above, first.above, lines)

    def put_under(self, small: ast.AST, header: str) -> Iterator[str]:
        """Yield texts with a simple statement in a block of its own, with a header.

        If it shares its line, first with the whole line inside, then with the line taken apart.
        """
        if not is_small(small):
            return
        line, newline = self.line(small), self.newline
        opened = f"{line.indent}{header}{newline}"
        inner = line.indent + self.unit
        # A body on its header's line has no line to put a block on (test_structural_fixers.py,
        # test_a_body_on_its_headers_line_under_no_grad).
        if line.in_header:
            start = self.start(line.statements[0])
            colon = len(self.text[:start].rstrip("\\ \t\r\n"))
            yield self.edited(Splice(colon, start, f"{newline}{self.unit}{opened}{inner}{self.unit}"))
            return
        yield self.block_put_under(small, header)
        if len(line.statements) > 1:
            start, end = self.start(small), self.end(small)
            after = self.text[end : line.end].lstrip("; \t\\\r\n") if small is not line.statements[-1] else ""
            left = self.text[line.start : start].rstrip("; \t\\\r\n")
            block = f"{opened}{inner}{self.text[start:end]}"
            block += f"{newline}{line.indent}{after}" if after else self.text[end : line.end]
            yield self.edited(Splice(line.start, line.end, (left and f"{left}{newline}") + block))

    def block_put_under(self, statement: ast.stmt, header: str) -> str:
        """Return the text with a statement's whole lines in a block, in that above them if it is the same."""
        line, siblings = self.line(statement), self.block(statement)
        opened, inner = f"{line.indent}{header}{self.newline}", line.indent + self.unit
        above = siblings[max(siblings.index(line.statements[0]) - 1, 0)]
        if isinstance(above, ast.With) and self.code(above).startswith(f"{header}{self.newline}"):
            opened, inner = "", self.line(above.body[-1]).indent
        return self.edited(Splice(line.start, line.end, opened + self.moved(line.start, line.end, inner)))

    def moved(self, start: int, end: int, indent: str) -> str:
        """Return the whole lines between two offsets, re-indented; the inside of strings stays."""
        first, last = self._starts.index(start), self._starts.index(end)
        numbers = range(first, last)
        codes = [self._lines[n] for n in numbers if self._lines[n].strip()]
        first_code = next((line for line in codes if _IDLE.match(line) is None), "".join(codes[:1]))
        old = first_code[: len(first_code) - len(first_code.lstrip())]
        return "".join(
            indent + self._lines[n].removeprefix(old)
            if self._lines[n].strip() and n + 1 not in self._lines_in_strings
            else self._lines[n]
            for n in numbers
        )

    @cached_property
    def _lines_in_strings(self) -> frozenset[int]:
        strings = (node for node in self.nodes if isinstance(node, ast.Constant | ast.JoinedStr))
        return frozenset(n for node in strings for n in range(node.lineno + 1, _end_line(node) + 1))

    @cached_property
    def newline(self) -> str:
        return next((end for end in ("\r\n", "\n", "\r") if self._lines[0].endswith(end)), "\n")

    @cached_property
    def unit(self) -> str:
        for node in self.nodes:
            if isinstance(node, ast.If | Loop | Function | With):
                inner, outer = self.line(node.body[0]), self.line(node)
                if not inner.in_header and inner.indent.startswith(outer.indent):
                    return inner.indent[len(outer.indent) :] or "    "
        return "    "

    # --- imports --------------------------------------------------------------------------------

    @cached_property
    def _imports(self) -> dict[str, str]:
        """The names that imports anywhere in the text, or in another cell, bind, with their full names."""
        others = self.notebook._imports if self.notebook else {}
        imports = (node for node in self.nodes if isinstance(node, ast.Import | ast.ImportFrom))
        return others | {name: full for node in imports for name, full in imported_by(node).items()}

    @cached_property
    def torch_name(self) -> str | None:
        return next((name for name, full in self._imports.items() if full == "torch"), None)

    @cached_property
    def imported_names(self) -> frozenset[str]:
        return frozenset(self._imports)

    @cached_property
    def names_from_torch(self) -> frozenset[str]:  # `torch`, `nn`, `F`
        return frozenset(n for n, full in self._imports.items() if full.partition(".")[0] == "torch")


def parse(text: str, notebook: str = "") -> Source | None:
    """Return the tree of a text, a cell of a notebook perhaps; None if it is no Python."""
    try:
        tree = parse_module(text)
    except (SyntaxError, ValueError):
        return None
    return Source(text, tree, parse(notebook) if notebook else None)


def walk(node: ast.AST) -> Iterator[ast.AST]:  # each before those in it, statements in source order
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(_children(node)))


def _children(node: ast.AST) -> list[ast.AST]:
    # As `ast.iter_child_nodes` yields them, in less time.
    parts = [part if isinstance(part, list) else (part,) for part in vars(node).values()]
    children = [child for part in parts for child in part if isinstance(child, ast.AST)]
    return [child for child in children if not isinstance(child, _WITHOUT_PLACE)]


def _end_line(node: ast.stmt | ast.expr) -> int:
    return node.end_lineno or node.lineno


def is_small(node: ast.AST) -> TypeGuard[ast.stmt]:
    return isinstance(node, ast.stmt) and not isinstance(node, _COMPOUND)


def is_place(node: ast.AST) -> bool:
    """Return whether ``node`` is a dotted path of names, which can be assigned, and read without effect."""
    while isinstance(node, ast.Attribute):
        # These give a view, or a tensor other than their owner's, so no result can be bound to the path.
        if node.attr == "grad" or node.attr in torch_table().view_attributes:
            return False
        node = node.value
    return isinstance(node, ast.Name)


def root_place(node: ast.expr) -> ast.expr | None:
    """Return the path of the tensor which ``node`` is a part of: ``x`` of ``x[i].t()[0]``, or None."""
    views = torch_table().returns_views | torch_table().may_return_view | torch_table().writes_self
    while not is_place(node):
        if isinstance(node, ast.Subscript | ast.Attribute):
            node = node.value
        elif (base := method_call(node, *views)) is not None:
            node = base
        else:
            return None
    return node


def root_name(node: ast.AST) -> str:
    return dotted(node).partition(".")[0]


def calls(node: ast.AST, names: Container[str]) -> Iterator[ast.Call]:
    return (inner for inner in walk(node) if isinstance(inner, ast.Call) and last_name(inner.func) in names)


def method_call(node: ast.AST | None, *methods: str) -> ast.expr | None:  # `h` of `h.append(x)`
    func = node.func if isinstance(node, ast.Call) else None
    return func.value if isinstance(func, ast.Attribute) and func.attr in methods else None


def arguments_of(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def parameters_of(function: Function) -> list[str]:
    return [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]


def methods_of(owner: ast.ClassDef) -> dict[str, Function]:
    return {node.name: node for node in owner.body if isinstance(node, Function)}


def targets_of(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []


def single_target(node: ast.AST) -> ast.expr | None:
    return node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None


def flat(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Tuple | ast.List):
        for element in node.elts:
            yield from flat(element.value if isinstance(element, ast.Starred) else element)
    else:
        yield node


def with_argument(source: Source, call: ast.Call, code: str) -> Splice:
    """Return the change of a call that adds an argument, which is given as code, at its end."""
    arguments = [*call.args, *call.keywords]
    if not arguments:
        end = source.end(call) - 1
        return Splice(end, end, code)
    end = max(source.span(argument)[1] for argument in arguments)
    comma = re.match(r", *(?=\))", source.text[end : source.end(call)])
    return Splice(end, end + (comma.end() if comma else 0), f", {code}")


def is_name(node: ast.AST | None, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def is_attribute_of(node: ast.AST | None, *names: str) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and is_name(node.value, *names)  # `self.h`


def is_constant(node: ast.AST | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in walk(node) if isinstance(inner, ast.Name)}
