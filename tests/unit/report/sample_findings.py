"""Findings of the little programs in ``tests/golden/sources``, one for each kind of story, as runs give them.

Other tests of reports may import ``examples()``, and ``site()`` for places in those programs.
"""

from __future__ import annotations

import ast
import runpy
import sys
import textwrap
import warnings
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

import unclobber
from unclobber.model import Finding, Fix, Frame, Need, Report, Site
from unclobber.repair import with_candidates

SOURCES = Path(__file__).parents[2] / "golden" / "sources"


def site(
    file: str, text: str, *, nth: int = 1, below: tuple[Frame, ...] = (), function: str = "<module>"
) -> Site:
    """The place of the ``nth`` occurrence of an expression in one of the sources."""
    path = SOURCES / file
    source = path.read_text(encoding="utf-8")
    at = -1
    for _ in range(nth):
        at = source.index(text, at + 1)
    line, column = _position(source, at)
    end_line, end_column = _position(source, at + len(text))
    statement = _statement(source, line, column, end_line)
    lines = source.split("\n")[statement.lineno - 1 : statement.end_lineno]
    if len(lines) == 1:
        lines = [ast.get_source_segment(source, statement) or ""]
    return Site(
        path=str(path),
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        function=function,
        source=text,
        statement_line=statement.lineno,
        statement_end_line=statement.end_lineno or statement.lineno,
        statement=textwrap.dedent("\n".join(lines)),
        below=below,
        stack=(*below[::-1], Frame(str(path), line, function)),
    )


def _position(source: str, offset: int) -> tuple[int, int]:
    line = source.count("\n", 0, offset) + 1
    return line, offset - (source.rfind("\n", 0, offset) + 1) + 1


def _statement(source: str, line: int, column: int, end_line: int) -> ast.stmt:
    """The innermost statement around a place."""
    inside = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt)
        and node.lineno <= line
        and end_line <= (node.end_lineno or 0)
        and (node.lineno < line or _column(source, node) <= column)
    ]
    return max(inside, key=lambda node: (node.lineno, node.col_offset))


def _column(source: str, node: ast.stmt) -> int:
    text = source.split("\n")[node.lineno - 1]
    return len(text.encode()[: node.col_offset].decode()) + 1


@cache
def examples() -> dict[str, Finding]:
    """One finding for each kind of story, by the name of its golden text."""
    plain, loop = found_in("train.py"), found_in("loop.py")
    return {
        "plain": plain,
        "candidate": _with_candidate(plain),
        "one-line": found_in("one_line.py"),
        "several-files": replace(found_in("main.py"), fixes=(_OUT_OF_PLACE,)),
        "library": found_in("deep.py"),
        "optimizer": found_in("gan.py"),
        "loop": loop,
        "loop-many-writes": replace(loop, writes=tuple(replace(write, count=10) for write in loop.writes)),
        "harmless": found_in("harmless.py"),
        "silent": found_in("silent.py"),
        "repaired": found_in("train.py", guarded=True),
        "leaf": found_in("leaf.py"),
        "multi-view": found_in("views.py"),
        "freed": found_in("twice.py"),
        "unknown": replace(without_sites(plain), needed=plain.needed),
        "nothing-known": without_sites(plain),
        "wide": found_in("wide.py"),
        "tall": found_in("tall.py"),
        "long": found_in("long.py"),
        "gone": moved(plain, str(SOURCES / "train.py"), "/gone/net.py"),
    }


def _with_candidate(finding: Finding) -> Finding:
    """As ``unclobber run train.py`` tells it."""
    report = Report("refused", (finding,), command=("train.py",))
    return with_candidates(report, str(SOURCES / "train.py")).findings[0]


_OUT_OF_PLACE = Fix(
    "take dropout out of place",
    diff="--- model.py\n+++ model.py\n@@ -16,3 +16,3 @@\n         h = self.gate(x)\n"
    "-        h = F.dropout(h, 0.5, self.training, inplace=True)\n"
    "+        h = F.dropout(h, 0.5, self.training)\n         return h\n",
    verified="whole-run",
)
"""As ``unclobber fix`` adds it."""


def found_in(file: str, *, guarded: bool = False) -> Finding:
    """The first finding of a run of one of the sources."""
    path, before, loaded = str(SOURCES / file), list(sys.path), set(sys.modules)
    sys.path.insert(0, str(SOURCES))
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings(), unclobber.guard() if guarded else unclobber.watch() as session:
            warnings.simplefilter("ignore", unclobber.SilentWriteWarning)
            runpy.run_path(path, run_name="__main__")
    except unclobber.InplaceError:
        pass
    finally:
        sys.path[:] = before
        for name in ("model", "layers"):
            if name not in loaded:
                sys.modules.pop(name, None)
    return _changed(session.findings[0], _as_anywhere)


def without_sites(finding: Finding) -> Finding:
    """The same where no line is known."""
    assert finding.saved is not None
    return replace(
        finding,
        saved=replace(finding.saved, site=None),
        writes=tuple(replace(write, site=None) for write in finding.writes),
        needed=Need(None),
    )


def moved(finding: Finding, path: str, to: str) -> Finding:
    """The same where a file lies elsewhere."""

    def change(one: Site | Frame) -> Site | Frame:
        return replace(one, path=to) if one.path == path else one

    return _changed(finding, change)


def _as_anywhere(one: Site | Frame) -> Site | Frame:
    """Without what differs from one torch to the next, and without those who run this."""
    if isinstance(one, Frame):
        return replace(one, line=1) if one.library else one
    return replace(one, stack=tuple(f for f in one.stack if Path(f.path).parent == SOURCES))


def _changed(fact: Any, change: Any) -> Any:
    """A finding with each of its sites and frames changed."""
    if isinstance(fact, tuple):
        return tuple(_changed(one, change) for one in fact)
    if not is_dataclass(fact):
        return fact
    facts = {one.name: _changed(getattr(fact, one.name), change) for one in fields(fact)}
    whole = replace(fact, **facts)
    return change(whole) if isinstance(whole, (Site, Frame)) else whole
