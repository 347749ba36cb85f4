"""Maps from ``(code, lasti)`` to the exact syntax node that ran.

``code.co_positions()`` gives the span of the instruction, and the file's syntax tree the node of that span.
Both are used only if they belong together, because a file edited while the program runs would put new text
under old line numbers.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from types import CodeType
from typing import Any, NamedTuple

from ..model import Extent
from ..syntax import NotParsedError, Span, compiled, parse, parse_expression
from ..syntax import text_of as file_text

_STARTED = time.time() - time.process_time()
"""Start of the process, in seconds since the epoch, or a little later. A file older than this can't have
changed since the program read it. At most the time of import; subtracting the CPU time already spent moves it
back towards the start.
"""


@dataclass(frozen=True)
class ParsedSource:
    """A version of a file's text, with its syntax tree."""

    lines: tuple[str, ...]
    tree: ast.Module
    fixed: bool
    """Whether the text can't have changed under the program: a notebook cell, a doctest, an old file."""
    codes: dict[tuple[str, int], list[CodeType]] = field(default_factory=dict)
    """Code objects of this text by name and first line, to recognise the one that ran."""

    @staticmethod
    def of(code: CodeType) -> ParsedSource | None:
        """Return the parsed text that ``code`` was compiled from; None if it is gone, changed or not
        Python."""
        source = ParsedSource.in_file(code.co_filename)
        if source is None or source.fixed:
            return source
        # Several lambdas of one line share the key.
        return source if code in source.codes.get((code.co_name, code.co_firstlineno), ()) else None

    @staticmethod
    def in_file(filename: str, word: str = "") -> ParsedSource | None:
        """Return a file's parsed text; None if it lacks the word, can't be read or isn't Python."""
        entry = _entry(filename)
        if entry is None or (word and not any(word in line for line in entry[0])):
            return None
        try:
            return _parsed(filename, *entry)
        except NotParsedError:
            return None

    def text(self, node: ast.AST) -> str:
        text = Span.of(node).text(self.lines)
        return text if "\n" not in text else ast.unparse(node)  # a node over several lines is unparsed to one

    def extent(self, node: ast.AST) -> Extent | None:
        return Span.of(node).extent(self.lines)

    def scope(self, code: CodeType) -> ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Return the function, or the module, that ``code`` was compiled from; None for lambdas and the
        like."""
        if code.co_name == "<module>":
            return self.tree
        definitions = (ast.FunctionDef, ast.AsyncFunctionDef)
        functions = (node for node in ast.walk(self.tree) if isinstance(node, definitions))
        named = (node for node in functions if node.name == code.co_name)
        matching = [node for node in named if first_line(node) == code.co_firstlineno]
        return matching[0] if len(matching) == 1 else None

    def statement_text(self, statement: ast.stmt) -> str:
        """Return the statement's text, dedented; of a compound one, its header."""
        first, last = header(statement)
        column = statement.col_offset if first == statement.lineno else 0
        end: int | None = None
        body = getattr(statement, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
            if body[0].lineno == last:
                end = body[0].col_offset
        elif last == statement.end_lineno:
            end = statement.end_col_offset
        text = Span(first, last, column, -1 if end is None else end).text(self.lines)
        indent = len(self.lines[first - 1]) - len(self.lines[first - 1].lstrip())
        head, *tail = text.split("\n")
        return "\n".join([head.strip(), *(_dedent(line, indent) for line in tail)]).rstrip()


@dataclass(frozen=True)
class Located:
    """The node at an instruction, with the statement around it."""

    node: ast.expr | ast.stmt
    statement: ast.stmt
    source: ParsedSource
    span: Span

    @property
    def right_side(self) -> Span:
        match self.statement:
            case ast.AugAssign(value=value) if self.node is self.statement:
                return Span.of(value)
            case ast.Assign(targets=targets, value=value) if self.node in targets:
                return Span.of(value)
        return self.span

    def inlined_names(self) -> frozenset[str]:
        """Return the variables of the comprehensions around the node that run in the node's frame.

        Since Python 3.12 list, set and dict comprehensions do. After an exception has left one, the frame
        holds the variables' earlier values, not those that the node read.
        """
        todo: list[tuple[ast.AST, frozenset[str]]] = [(self.statement, frozenset())]
        while todo and sys.version_info >= (3, 12):
            node, names = todo.pop()
            if node is self.node:
                return names
            inside = names
            if isinstance(node, (ast.Lambda, ast.GeneratorExp)):
                inside = frozenset()  # these have frames of their own
            elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp)):
                targets = [variable for part in node.generators for variable in ast.walk(part.target)]
                inside |= {variable.id for variable in targets if isinstance(variable, ast.Name)}
                # the first iterable runs outside the comprehension; appended last, so popped before the
                # children
                todo.append((node.generators[0].iter, names))
            todo[:0] = [(child, inside) for child in ast.iter_child_nodes(node)]
        return frozenset()


class Instruction(NamedTuple):
    """An instruction of a code object: of a stack, or the last one of a live frame."""

    code: CodeType
    lasti: int

    @classmethod
    def of(cls, code: CodeType, node: ast.expr) -> Instruction | None:
        """Return an expression's instruction, in ``code`` or in a comprehension's code inside of it; None if
        neither has it, or if several comprehensions have it."""
        span = Span.of(node)
        for index, (_, end_line, _, end_column) in enumerate(code.co_positions()):
            if (end_line, end_column) != (span.end_line, span.end_column):
                continue
            instruction = cls(code, 2 * index)
            if instruction.span == span:
                return instruction
            # Python places a method call over several lines at its attribute, so its span differs.
            located = instruction.located() if isinstance(node, ast.Call) else None
            if located is not None and located.node is node:
                return instruction
        constants = [part for part in code.co_consts if isinstance(part, CodeType)]
        inside = [part for part in constants if part.co_name.endswith(("comp>", "expr>"))]
        instructions = list(filter(None, (cls.of(part, node) for part in inside)))
        return instructions[0] if len(instructions) == 1 else None

    @property
    def key(self) -> tuple[Any, ...]:
        """A hashable key with the file's name, because equal code in two files makes equal code objects."""
        return self.code.co_filename, self.code, self.lasti

    @property
    def path(self) -> str:
        """The absolute path of the code's file without detours (``a/../b``), or the interpreter's name for
        it, such as ``<stdin>``."""
        name = self.code.co_filename
        absolute = name if name.startswith("<") else os.path.abspath(name)
        if absolute == name:
            return name
        try:  # `abspath` resolves `link/..` wrongly: tests/unit/source/test_sites.py
            same = os.path.samefile(absolute, name)
        except OSError:
            same = False
        return absolute if same else name

    @property
    def line(self) -> int:  # the function's first line if the instruction has none
        position = self._position()
        return self.code.co_firstlineno if position is None or position[0] is None else position[0]

    @property
    def span(self) -> Span | None:
        """The exact span; None under ``-X no_debug_ranges`` and for synthetic code."""
        position = self._position()
        if position is None:
            return None
        line, end_line, column, end_column = position
        if line is None or end_line is None or column is None or end_column is None:
            return None
        return Span(line, end_line, column, end_column)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the text that the code was compiled from; empty if the text isn't certain."""
        entry = _entry(self.code.co_filename)
        if entry is None:
            return ()
        lines, fixed = entry
        # Return without parsing, which is slow and needs Python: the text may be a template or a notebook
        # magic.
        if fixed:
            return lines
        source = ParsedSource.of(self.code)
        return () if source is None else source.lines

    def located(self) -> Located | None:
        """Return the expression or statement that the instruction belongs to; None if it isn't certain."""
        span = self.span
        source = ParsedSource.of(self.code) if span is not None else None
        if span is None or source is None:
            return None
        best: ast.expr | ast.stmt | None = None
        statement: ast.stmt | None = None
        for node, around in _around(source.tree, span.line, span.end_line):
            if _matches(node, span):
                best, statement = node, around
        if best is None or statement is None or not _text_is_node(source, best):
            return None
        return Located(best, statement, source, span)

    def statement(self) -> tuple[ast.stmt, ParsedSource] | None:
        """Return the innermost statement on the instruction's line; None if two statements share the line.

        Used for instructions without columns, whose node isn't known.
        """
        source = ParsedSource.of(self.code)
        if source is None:
            return None
        line = self.line
        inner: list[ast.stmt] = []
        for node, _ in _around(source.tree, line, line):
            if isinstance(node, ast.stmt):
                first, last = header(node)
                if first <= line <= last:
                    inner.append(node)
        return (inner[0], source) if len(inner) == 1 else None

    def _position(self) -> tuple[int | None, int | None, int | None, int | None] | None:
        return None if self.lasti < 0 else next(islice(self.code.co_positions(), self.lasti // 2, None), None)


def header(statement: ast.stmt) -> tuple[int, int]:
    """Return the first and last line of a statement; of a compound one, only the part before its body."""
    body = getattr(statement, "body", None)
    if not isinstance(body, list) or not body or isinstance(statement, ast.Match):
        return statement.lineno, statement.end_lineno or statement.lineno
    heads = [
        node.end_lineno or node.lineno
        for child in ast.iter_child_nodes(statement)
        if not isinstance(child, (ast.stmt, ast.ExceptHandler))
        for node in ast.walk(child)
        if isinstance(node, (ast.expr, ast.arg, ast.keyword))
    ]
    last = max([statement.lineno, *heads])
    return first_line(statement), min(last, first_line(body[0]))


def first_line(node: ast.expr | ast.stmt) -> int:  # of a decorated definition, its first decorator's
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _dedent(line: str, by: int) -> str:
    return line[by:] if not line[:by].strip() else line.lstrip()


# --- reading -----------------------------------------------------------------------------------
def _entry(filename: str) -> tuple[tuple[str, ...], bool] | None:
    """Return the file's lines, and whether they can't have changed since the program started."""
    text = file_text(filename, recheck=True)
    if text is None:
        return None
    return text.lines, text.modified is None or text.modified <= _STARTED


@lru_cache(maxsize=256)
def _parsed(filename: str, lines: tuple[str, ...], fixed: bool) -> ParsedSource | None:
    """Parse the text; compile it too unless it is ``fixed``, so that its code objects can be compared."""
    text = "".join(lines)
    codes: dict[tuple[str, int], list[CodeType]] = {}
    try:
        tree = parse(text)
        if not fixed:
            for code in _nested(compiled(text, filename)):
                codes.setdefault((code.co_name, code.co_firstlineno), []).append(code)
    except NotParsedError:
        # Raised past `lru_cache`, so that a file which can't be parsed at this moment is parsed at the next.
        raise
    except (SyntaxError, ValueError):
        return None
    return ParsedSource(lines, tree, fixed, codes)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _around(tree: ast.AST, line: int, end_line: int) -> Iterator[tuple[ast.expr | ast.stmt, ast.stmt]]:
    """Yield nodes whose lines overlap the given ones, outermost first, each with its innermost statement."""
    stack: list[tuple[ast.AST, ast.stmt | None]] = [(tree, None)]
    while stack:
        node, statement = stack.pop()
        for child in ast.iter_child_nodes(node):
            inner = child if isinstance(child, ast.stmt) else statement
            if isinstance(child, (ast.expr, ast.stmt)):
                # `lineno` of a decorated definition is its `def` (tests/unit/source/test_sites.py).
                if not first_line(child) <= end_line or not line <= (child.end_lineno or child.lineno):
                    continue
                assert inner is not None
                yield child, inner
            stack.append((child, inner))


def _matches(node: ast.expr | ast.stmt, span: Span) -> bool:
    """Return whether the node covers the span, or is a method call that Python placed so."""
    if (node.end_lineno, node.end_col_offset) != (span.end_line, span.end_column):
        return False
    if (node.lineno, node.col_offset) == (span.line, span.column):
        return True
    # Python places a method call over several lines at its attribute, not at the start of the chain.
    name = node.func if isinstance(node, ast.Call) else node
    if not isinstance(name, ast.Attribute):
        return False
    start = (name.end_col_offset or 0) - len(name.attr.encode())
    return (name.end_lineno, start) == (span.line, span.column)


def _text_is_node(source: ParsedSource, node: ast.expr | ast.stmt) -> bool:
    """Return whether the text at the node's place really is the node; that of an expression inside an
    f-string may not be (tests/unit/source/test_sites.py)."""
    if isinstance(node, ast.stmt):
        return True
    try:
        return _same(parse_expression(f"({Span.of(node).text(source.lines)}\n)"), node)
    except (SyntaxError, ValueError):
        # A starred target or a slice is no expression of its own, so the agreeing spans must suffice.
        return isinstance(node, (ast.Starred, ast.Slice))


def _same(*nodes: ast.AST) -> bool:
    # A target's text is parsed as an expression here, which is loaded and not stored.
    return len({re.sub(r"ctx=(Store|Del)\(\)", "ctx=Load()", ast.dump(node)) for node in nodes}) == 1
