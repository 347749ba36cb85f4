"""The range of the user's lines in which a tensor's content changed without an observed write, in words."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from ..model import Site, Write, shown_name
from ..observe.record import ProgramPoint
from ..source import Instruction, ParsedSource, Stack, resolve, user_frame
from ..syntax import last_name, parse
from . import write

_REACHES_MEMORY = re.compile(
    r"\.numpy\(|\bnp\.|\bnumpy\b|data_ptr|dlpack|\bctypes\b|memmove|frombuffer|__array|untyped_storage"
)
"""Words that lines which write past torch usually contain."""


_LATER = "changed later; no write was seen (a run with `--fingerprint` narrows down its line)"
_CHANGED = "its content changed {when}; no write was seen"


def write_at(stack: Stack) -> Write:
    """Return the write by a statement that ran alone while the content changed."""
    located = Instruction(*stack[:2]).located()
    called = last_name(located.node.func) if located and isinstance(located.node, ast.Call) else ""
    return replace(
        write.at(resolve(stack), called or "no operation of torch"),
        bumps_version=False,
        past_counter="handed out",
    )


def after_hand_out(stack: Stack) -> str:
    """Return a sentence, without its full stop, on a change since ``stack`` gave the memory away."""
    site = resolve(stack)
    where = "" if site is None else f" by {_line(site)}"
    return f"its memory was given to code outside of torch{where}, and its content {_LATER}"


BORROWED = (
    f"its memory belongs to code outside of torch (an array of NumPy's, for one), and its content {_LATER}"
)


def between(good: ProgramPoint | None, bad: ProgramPoint | None, written: Write | None = None) -> str:
    """Return a sentence, without its full stop, on the lines between which the content changed.

    Args:
        good: The last moment at which the content was as saved.
        bad: The first at which it was not.
        written: The one statement that can have changed it.
    """
    if written is not None and written.site is not None:
        return _CHANGED.format(when=f"while {_line(written.site)} ran")
    start = None if good is None else resolve(good.stack)
    end = None if bad is None else resolve(bad.stack)
    if good is None or bad is None or start is None or end is None:
        return "no write to it was seen, and it is not known when its content changed"
    place = user_frame(good.stack)
    source = None if place is None else ParsedSource.of(place.code)
    if place == user_frame(bad.stack) and not good.after and bad.after:
        called = f"`{_flattened(start.source)}` ran, at {_line(start)}"
        return _CHANGED.format(when=f"while {called if start.source else f'{_line(start)} ran'}")
    if (start.path, start.line) == (end.path, end.line):  # also in two passes of a loop
        return _CHANGED.format(when=f"between two calls of torch at {_line(start)}")
    text = _CHANGED.format(when=f"between {_line(start)} and {_line(end)}")
    suspect = None if source is None else _suspect(start, end, source)
    if place is None or suspect is None:
        return text
    line, statement = suspect
    # If two statements share the line, name only the line, because either may have written.
    shared = start.statement_line == end.statement_line or ";" in "".join(place.lines[line - 1 : line])
    return f"{text}: probably line {line}" + ("" if shared else f", `{_flattened(statement)}`")


def _suspect(start: Site, end: Site, source: ParsedSource) -> tuple[int, str] | None:
    """Return the one statement of the range that can have written; None if there are several or none.

    The call at ``start`` is over, but its statement goes on. The call at ``end`` has started.
    """
    if not start.statement or not end.statement:
        return None  # their source isn't available
    if start.path != end.path or start.function != end.function or end.statement_line < start.statement_line:
        return None  # in different places, or the range goes round a loop
    inside = [
        (node.lineno, source.statement_text(node))
        for node in ast.walk(source.tree)
        if isinstance(node, ast.stmt)
        and not hasattr(node, "body")
        and start.statement_line < node.lineno < end.statement_line
    ]
    if not _only_names_a_value(start.statement):
        inside.insert(0, (start.statement_line, start.statement))
    if not inside:  # only the part of the last statement before its call is left
        inside.append((end.statement_line, end.statement))
    if len(inside) > 1:
        inside = [entry for entry in inside if _REACHES_MEMORY.search(entry[1])]
    return inside[0] if len(inside) == 1 else None


def _only_names_a_value(statement: str) -> bool:
    """Return whether a statement only gives its value a name after its last call."""
    try:
        (node,) = parse(statement).body
    except (SyntaxError, ValueError):
        return False
    return isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets)


def _line(site: Site) -> str:
    return f"line {site.line} of {shown_name(site.path)}"


def _flattened(text: str) -> str:
    return " ".join(text.split())
