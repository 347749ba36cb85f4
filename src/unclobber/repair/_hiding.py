"""Edits that hide a write from another holder of the written tensor.

After such an edit the new value is in a new tensor, which only the names bound by the edited statement hold.
The other holders of the old tensor were measured while the program ran (``_holders``). A fixer's own static
guess counts only if nothing was measured.
"""

from __future__ import annotations

import ast
import os
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..model import Finding, Site
from ..syntax import text_of
from ._candidate import Candidate
from ._diff import changes
from ._job import HeldBy
from ._probes import WriteStatement
from ._syntax import Source, parse, targets_of
from ._text import lines_in
from .fixers._aliases import read_later
from .fixers._sites import sites, write_statements
from .project import Project


@dataclass(frozen=True)
class Hidden:
    """The holders that no longer see a write after an edit."""

    note: str = ""  # a sentence for the user; empty if every holder still sees the write
    never_read_again: frozenset[str] = frozenset()
    """Global names that keep the old value and that the program never reads again."""


def probes_of(finding: Finding) -> tuple[WriteStatement, ...]:
    return tuple(dict.fromkeys(map(_probe, sites(*finding.writes))))


def _probe(site: Site) -> WriteStatement:
    return WriteStatement(os.path.realpath(site.path), site.line, site.column)


def hidden(
    candidate: Candidate, finding: Finding, project: Project, held: Mapping[WriteStatement, HeldBy]
) -> Hidden:
    """Return the holders of a tensor that an edit of the project no longer writes to, by those that were
    measured at the finding's writes in the project as it is."""
    if candidate.hides_nothing or candidate.moves or finding.entry.harms_others:
        return Hidden()
    never_read_again: set[str] = set()
    measured = False
    for write, (path, source, statement) in write_statements(finding, project):
        real = os.path.realpath(path)
        new = candidate.texts.get(path, candidate.texts.get(real))
        if new is None:
            continue
        holders = next((held.get(_probe(site)) for site in sites(write)), None)
        touched, bound, rebound = _change(source, statement, new, set() if holders is None else holders.names)
        if not (touched or candidate.shared_name) or holders is None:
            continue
        measured = True
        if not touched:
            # the edit is elsewhere, so the statement binds the same names as before
            bound = set(_bound(source.code(statement))) if candidate.drops else holders.names
        for name in sorted(holders.names):
            if name in bound:
                continue
            # Any code may read an attribute or an item.
            if not name.isidentifier() or read_later(source, statement, ast.Name(name, ast.Load())):
                return Hidden(f"`{name}` is left without the write")
            if source.function(statement) is None:
                never_read_again.add(name)
        # `q` of `q, k = [part.clone() for part in …]` holds what the helper then writes to.
        if others := [each for each in holders.others if f"{each}``".split("`")[1] not in rebound]:
            return Hidden(f"{' and '.join(others)} also held what is written, and no longer sees the write")
        for file, line, name in sorted(holders.callers):
            read, keeps = (False, False) if name in rebound else _after_call(project, file, line, name)
            if read:
                return Hidden(f"`{name}` of the caller in line {line} is left without the write")
            never_read_again |= {name} if keeps else set()
    if not measured and candidate.shared_name:
        name = candidate.shared_name  # code, or words
        held_too = name if name.startswith("the ") else f"the tensor `{name}`"
        return Hidden(f"whoever else holds {held_too} no longer sees this write")
    return Hidden(never_read_again=frozenset(never_read_again))


def _after_call(project: Project, file: str, line: int, name: str) -> tuple[bool, bool]:
    """Return whether a variable may be read again after the call that runs in a line, and whether it is a
    module's, and keeps what it holds."""
    source = project.source(file)
    if source is None and (text := text_of(file)) is not None:  # a library's, such as Sequential.forward
        source = parse("".join(text.lines))
    statement = None if source is None else source.statement(line) or source.in_header(line)
    if source is None or statement is None:
        return True, False
    if isinstance(statement, ast.Return) or name in map(source.code, targets_of(statement)):
        return False, False
    return read_later(source, statement, ast.Name(name, ast.Load())), source.function(statement) is None


def _change(source: Source, at: Any, new: str, names: set[str]) -> tuple[bool, set[str], set[str]]:
    """Return whether the text changes a statement or a name before it, what that binds, and all elsewhere."""
    first, last, scope = at.lineno - 1, at.end_lineno, source.function(at)
    old_lines = [line.strip() for line in lines_in(source.text)]
    full = [line.rstrip() for line in lines_in(new)]
    touched, bound, rebound = False, set[str](), set[str]()
    for tag, a, b, c, d in changes(old_lines, [line.strip() for line in full]):
        here = set(_bound("\n".join(full[c:d])))
        if scope is not None and (b < scope.lineno or a >= (scope.end_lineno or 0)):
            rebound |= here
        if b < first or a > last:
            continue
        if (a < last and b > first) or (tag == "insert" and here & names):
            touched, bound = True, bound | here
    return touched, bound, rebound


def _bound(code: str) -> Iterator[str]:
    """Yield the names, attributes and items that some lines bind."""
    source = parse(textwrap.dedent(code))  # None for a part of a statement
    for node in source.nodes if source else ():
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            yield ast.unparse(node)
