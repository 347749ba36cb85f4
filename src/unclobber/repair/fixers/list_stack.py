"""Fixer: collect states in a list, ``out.append(h)`` for ``out[t] = h``, and ``torch.stack`` it.

For a buffer that one loop fills from its start, one index a turn, and that is read only where it is filled.
Each read gets the element itself, or a stack of those so far. There is an edit only if every read of the
buffer can be rewritten, so no holder can miss a write.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from ...model import Finding
from ...syntax import last_name
from .._candidate import Candidate
from .._syntax import Comprehension, Loop, Source, is_name, single_target, walk
from .._text import Splice
from ..project import Project
from ._sites import write_statements
from .clone_target import targets
from .scatter import index_parts, is_everything

_MADE = frozenset({"zeros", "ones", "empty", "new_zeros", "new_ones", "new_empty"})
"""Functions and methods that make a tensor of some sizes."""


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the loop that fills a buffer with a list in its place."""
    for _, (path, source, statement) in write_statements(finding, project):
        for text, name in rewrites(source, statement):
            yield Candidate(f"collect `{name}` in a list and stack it", {path: text}, hides_nothing=True)


def rewrites(source: Source, write: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the text with a list in a buffer's place, and the buffer's name."""
    target, loop, writes = single_target(write), source.parents.get(write), [write]
    if isinstance(loop, ast.If) and target is not None:  # the first turn has a branch of its own
        branches = [_writes_to(target, loop.body, source), _writes_to(target, loop.orelse, source)]
        writes = [each[0] for each in branches] if all(len(each) == 1 for each in branches) else []
        loop = source.parents.get(loop)
    if not isinstance(loop, ast.For) or not isinstance(target, ast.Subscript) or not source.torch_name:
        return
    counter, start = _counter(loop, source)
    dim, index = _part(target)
    distance = _distance(source, index, counter)
    skips = not writes or loop.orelse or any(isinstance(n, ast.Continue | ast.Break) for n in walk(loop))
    if start is not None and distance is not None and isinstance(target.value, ast.Name) and not skips:
        buffer = _Buffer(source, writes, target.value.id, loop, counter, dim, distance, start + distance)
        if (changes := buffer.changes()) is not None:
            yield source.edited(*changes), buffer.name


def _writes_to(target: ast.expr, branch: list[ast.stmt], source: Source) -> list[ast.AST]:
    alike = ((line, single_target(line)) for line in branch)
    return [line for line, other in alike if other and source.code(other) == source.code(target)]


def _counter(loop: ast.For, source: Source) -> tuple[str, int | None]:
    """Return the name that counts a loop's turns and its first value; None if that is not plain."""
    match loop.target, loop.iter:
        case ast.Name(id=name), ast.Call(func=ast.Name(id="range"), args=[*start, _]) if len(start) < 2:
            return name, _distance(source, start[0]) if start else 0
        case ast.Tuple(elts=[ast.Name(id=name), _]), ast.Call(func=ast.Name(id="enumerate"), args=[_]):
            return name, 0
    return "", None


def _distance(source: Source, index: ast.expr | None, counter: str = "") -> int | None:
    """Return ``k`` of an index ``t + k`` or ``t - k``, or of the number ``k`` without a counter."""
    code = "" if index is None else "".join(source.code(index).split())
    match = re.fullmatch(rf"{re.escape(counter)}([+-]\d+)?" if counter else r"(-?\d+)", code)
    return None if match is None else int(match[1] or 0)


def _part(node: ast.AST | None) -> tuple[int, ast.expr | None]:
    """Return the one dimension that a subscript selects in, with the index or slice; None for others."""
    if not isinstance(node, ast.Subscript):
        return -1, None
    chosen = [(dim, part) for dim, part in enumerate(index_parts(node.slice)) if not is_everything(part)]
    return chosen[0] if len(chosen) == 1 else (-1, None)


class _Buffer(NamedTuple):
    """A tensor that a loop fills. Each method returns changes of its uses, or None if a use has none."""

    source: Source
    writes: list[Any]  # one, or one in each branch of a test
    name: str
    loop: ast.For
    counter: str
    dim: int
    distance: int  # the written index minus the counter
    first: int  # the first index that the loop writes

    def changes(self) -> list[Splice] | None:
        """Put a list in the buffer's place."""
        source, block = self.source, self.source.block(self.loop)
        function = source.function(self.loop)
        uses = [node for node in walk(function or source.tree) if is_name(node, self.name)]
        above = {node: [*source.all_above(node)] for node in uses}
        lines = block[: block.index(self.loop)]
        early = [line for line in lines if any(line in above[node] for node in uses)]
        late = [node for node in uses if not {*early, self.loop} & {*above[node]}]
        targets = {write.targets[0] for write in self.writes}
        inside = [node for node in uses if self.loop in above[node] and not targets & {*above[node]}]
        parts = [self._made(early), self._ending(late), *map(self._read, inside)]
        scopes = (source.above(node, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda) for node in uses)
        if any(part is None for part in parts) or any(scope is not function for scope in scopes):
            return None
        changes = [change for part in parts for change in part or ()]
        for write in self.writes:
            start, end = source.span(write.value)
            own = [change for change in changes if start <= change.start < end]
            appended = f"{self.name}.append({source.code(write.value, *own)})"
            changes = [source.change(write, appended), *(change for change in changes if change not in own)]
        return changes

    def _made(self, early: list[Any]) -> list[Splice] | None:
        """Put the first elements in place of the new tensor and of the writes above the loop."""
        source, lines = self.source, [*map(self.source.own_line, early)]
        made = early[0].value if early and is_name(single_target(early[0]), self.name) else None
        if not isinstance(made, ast.Call) or last_name(made.func) not in _MADE or None in lines:
            return None
        for number, line in enumerate(early[1:]):
            dim, index = _part(single_target(line))
            if dim != self.dim or _distance(source, index) != number:
                return None
        elements = [source.code(line.value) for line in early[1:]]
        sizes = made.args[: self.dim + 2]
        if self.first == 1 and not elements and "empty" not in last_name(made.func):
            if len(sizes) < self.dim + 2 or any(isinstance(n, ast.Tuple | ast.Starred) for n in sizes[:-1]):
                return None
            (start, _), (end, _) = map(source.span, sizes[self.dim :])
            elements = [source.code(made, Splice(start, end, ""))]
        if len(elements) != self.first:
            return None
        gone = [Splice(line.start, line.end, "") for line in lines[:-1] if line is not None]
        return [*gone, source.change(early[-1], f"{self.name} = [{', '.join(elements)}]")]

    def _read(self, node: ast.AST) -> list[Splice] | None:
        """Take an element, or a stack of those up to an index, for a read in the loop."""
        source, subscript = self.source, self.source.parents[node]
        dim, index = _part(subscript)
        if dim != self.dim or not isinstance(getattr(subscript, "ctx", None), ast.Load):
            return None
        # In the written value, as above it, the newest element is the one before.
        newest = self.distance + any(self._is_behind(node, write) for write in self.writes) - 1
        end = index.upper if isinstance(index, ast.Slice) else index
        at, constant = _distance(source, end, self.counter), _distance(source, index)
        limit = newest + isinstance(index, ast.Slice)
        known = at is not None and at <= limit and self._least(node) + at >= 0
        if not known and (constant is None or not 0 <= constant < self.first):
            return None
        if isinstance(index, ast.Slice):
            lower = f"[{source.code(index.lower)}:]" if index.lower else ""
            part = lower if at == limit and not index.step else f"[{source.code(index)}]"
            return [source.change(subscript, self._stacked(part))]
        return [source.change(subscript, f"{self.name}[{-1 if at == newest else source.code(index)}]")]  # type: ignore[arg-type]

    def _is_behind(self, node: ast.AST, write: ast.AST) -> bool:
        """Return whether a node runs after a write of its turn, which may be in another branch of a test."""
        test, above = self.source.parents[write], {node, *self.source.all_above(node)}
        is_apart = test is not self.loop and test in above and above.isdisjoint(self.source.block(write))
        return self.source.start(node) > self.source.end(write) and not is_apart

    def _least(self, node: ast.AST) -> int:
        """Return the least value of the counter where a node runs: a test may leave out the first turn."""
        name, start = self.counter, self.first - self.distance
        later = {f"{name}>{start}", f"{name}>={start + 1}", f"{name}!={start}", name if start == 0 else ""}
        first = {f"{name}<{start + 1}", f"{name}<={start}", f"{name}=={start}", "" if start else f"not{name}"}
        for child, above in pairwise([node, *self.source.all_above(node)]):
            if isinstance(above, ast.If | ast.IfExp) and child is not above.test:
                body = above.body if isinstance(above.body, list) else [above.body]
                if "".join(self.source.code(above.test).split()) in (later if child in body else first):
                    return start + 1
        return start

    def _ending(self, late: list[Any]) -> list[Splice] | None:
        """Stack the list in the one read below the loop, or in a line below it."""
        source, outer = self.source, [*self.source.all_above(self.loop)]
        # What a view of the buffer would see of a write below the loop, an element of the list does not.
        lines = filter(None, map(source.small, late))
        written = {source.code(place) for line in lines for place in targets(source, line)}
        early = any(source.is_bound(node) or source.start(node) < source.end(self.loop) for node in late)
        if early or self.name in written:
            return None
        local = source.function(self.loop) is not None
        between = [above for node in late for above in source.all_above(node) if above not in outer]
        if not local or len(late) > 1 or any(isinstance(above, Loop | Comprehension) for above in between):
            line = source.line(self.loop)
            bound = source.lines_of(f"{self.name} = {self._stacked()}", line.indent)
            return [source.behind(line, bound)]
        if not late:
            return []
        dim, index = _part(between[0])
        code = f"[{source.code(index)}]" if index is not None and dim == self.dim else ""
        if code and _distance(source, index) is not None:
            return [source.change(between[0], f"{self.name}{code}")]
        is_slice = code and isinstance(index, ast.Slice)
        return [source.change(between[0] if is_slice else late[0], self._stacked(code if is_slice else ""))]

    def _stacked(self, part: str = "") -> str:
        return f"{self.source.torch_name}.stack({self.name}{part}{f', {self.dim}' if self.dim else ''})"
