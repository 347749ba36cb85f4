"""A program as Python source: one statement a line, so that a line number is a statement."""

from __future__ import annotations

import ast
import linecache
import re
import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from types import CodeType

from ._prelude import needed_pieces

LANES = ("left", "right")


@dataclass(frozen=True)
class Script:
    """Statements in their order; those of ``left`` and ``right`` run in two threads at once.

    Example:
        >>> print(str(Script(("x0 = leaf(0, (2,), torch.float64)", "y = x0.exp()"))).splitlines()[-1])
        y = x0.exp()
    """

    main: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    seed: int | None = None
    """Of the generator; None for a program that was written or shrunk by hand."""

    @property
    def statements(self) -> tuple[str, ...]:
        return self.left + self.right + self.main

    def without(self, doomed: range) -> Script:
        """The script without the statements of these numbers."""
        left, right = len(self.left), len(self.left) + len(self.right)
        kept = [(n, text) for n, text in enumerate(self.statements) if n not in doomed]
        return replace(
            self,
            left=tuple(text for n, text in kept if n < left),
            right=tuple(text for n, text in kept if left <= n < right),
            main=tuple(text for n, text in kept if n >= right),
        )

    def keeping_graphs(self, but: set[int]) -> Script:
        """The script with every backward keeping its graph, except for those on the lines ``but``."""
        text = str(self).splitlines()
        as_it_is = {text[line - 1].strip() for line in but}
        lanes = {
            lane: tuple(one if one in as_it_is else _keeping_graph(one) for one in getattr(self, lane))
            for lane in ("main", *LANES)
        }
        return replace(self, **lanes)

    def uses(self, *words: str) -> bool:
        """Whether any statement contains any of the words."""
        return any(word in text for text in self.statements for word in words)

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names that its statements define."""
        targets = (re.match(r"([\w, ()]+) = ", text) for text in self.statements)
        return frozenset(name for target in targets if target for name in re.findall(r"\w+", target[1]))

    @cached_property
    def _parts(self) -> tuple[str, str]:
        body = ["torch.manual_seed(0)"]
        for lane in LANES:
            statements = getattr(self, lane)
            if statements:
                body += [f"def {lane}():", *(f"    {text}" for text in statements)]
        body += self.main
        return needed_pieces("\n".join(body)), "\n".join(body) + "\n"

    def __str__(self) -> str:
        return "".join(self._parts)

    @property
    def first_line(self) -> int:
        """Line number of the first line after the helpers."""
        return self._parts[0].count("\n") + 1

    @cached_property
    def file(self) -> str:
        """The name that its code goes by; other text, other name, for whoever keeps sources by name."""
        return f"<script {zlib.crc32(str(self).encode()):08x}>"

    @cached_property
    def code(self) -> tuple[CodeType, CodeType]:
        """The helpers and the rest, compiled."""
        tree = ast.parse(str(self))
        head = [node for node in tree.body if node.lineno < self.first_line]
        rest = tree.body[len(head) :]
        return (
            compile(ast.Module(head, []), self.file, "exec"),
            compile(ast.Module(rest, []), self.file, "exec"),
        )

    def show(self) -> None:
        """Let tracebacks and stories find the source."""
        text = str(self)
        linecache.cache[self.file] = (len(text), None, text.splitlines(keepends=True), self.file)

    def forget(self) -> None:
        """Let go of the source: thousands of scripts run in one process."""
        linecache.cache.pop(self.file, None)


def _keeping_graph(statement: str) -> str:
    if "_graph=True" in statement:
        return statement
    statement = statement.replace(".backward()", ".backward(retain_graph=True)")
    return re.sub(r"(autograd\.grad\(.*)\)$", r"\1, retain_graph=True)", statement)
