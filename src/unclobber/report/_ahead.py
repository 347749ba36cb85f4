"""Tensors that a refused backward would have refused next, as a short list with lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import pairwise

from ..model import Edit, Finding, Fix
from . import _words as words
from ._cells import clean, clean_source, wrap
from ._cells import width as cells
from .story import offending, place

_WIDEST_PLACE = 28
_MOST = 8


def ahead_to_text(findings: Sequence[Finding], *, after: Sequence[Finding] = (), width: int = 80) -> str:
    """Return each finding with its lines and the edit that may fix it; empty if there are none.

    Args:
        after: The findings that are shown before the list, whose edits an edit of the same line keeps.

    Example:
        >>> from unclobber.model import Finding
        >>> print(ahead_to_text([Finding("UC101", "`gate` was overwritten")]))
        the same backward would have refused this, too:
          an unknown line  `gate` was overwritten
    """
    if not findings:
        return ""
    lines = [f"the same backward would have refused {'these' if len(findings) > 1 else 'this'}, too:"]
    shown = findings[:_MOST]
    places = [clean(place(offending(finding))) for finding in shown]
    column = 2 + min(max(map(cells, places)), _WIDEST_PLACE) + 2
    room = max(width - column, 24)
    fixes = [fix for finding in after for fix in finding.fixes[:1]]
    for where, finding in zip(places, shown, strict=True):
        site = None if finding.saved is None else finding.saved.site
        blamed = list(dict.fromkeys(map(place, finding.blamed)))
        more = "".join(f", and overwritten in {line}" for line in blamed[1:])
        said = wrap(finding.message + (f", in {place(site)}" if site else "") + more, room)
        said += [
            line for fix in finding.fixes[:1] for line in _help(fix, fixes, room, _again(finding, after))
        ]
        fixes += finding.fixes[:1]
        head = f"  {where}"
        if cells(head) > column - 2:
            lines.append(head)
            head = ""
        lines.append(head + " " * (column - cells(head)) + said[0])
        lines += [" " * column + line for line in said[1:]]
    if left := findings[_MOST:]:
        lines.append(f"  and {len(left)} more: --format json names them all")
    return "\n".join(lines)


def _again(finding: Finding, after: Sequence[Finding]) -> str:
    """Return the words for a finding's first edit if it stands above; it says which one it is if another edit
    there ends its own finding alone."""
    own = [fix.edits for fix in finding.fixes if fix.edits]
    same = [above.fixes for above in after if above.fixes and above.fixes[0].edits == own[0]] if own else []
    if not any(fix.edits and fix.edits not in own for fixes in same for fix in fixes):
        return "the same edit as above"
    return f"the first edit above, in line {own[0][0].line}"


def _help(fix: Fix, before: Sequence[Fix], room: int, again: str) -> Iterator[str]:
    """Yield the lines of one finding's help, but no advice in words that stands before it already; ``again``
    stands for an edit that does."""
    if fix.guard or (not fix.edits and fix in before):
        return
    if fix.edits and any(fix.edits == other.edits for other in before):
        yield from wrap(f"help: {again}", room)
        return
    title, code = fix.title, fix.code
    if code and fix.edits and (whole := _together([*before, fix])):
        title, code = f"{title}, with the edits of that line above", whole.strip()
    yield from wrap(f"help: {words.code_after(title, code)}", room)
    for edit in () if code else fix.edits:
        yield f"{words.path(edit.path)}:{edit.line}:"
        yield from map(clean_source, edit.new.split("\n"))


def _together(fixes: Sequence[Fix]) -> str | None:
    """Return the line of the last edit with all changes; None if it has no others or if two overlap."""
    edits = [fix.edits[0] for fix in fixes if fix.code and fix.edits]
    line = [edit for edit in edits if replace(edit, new=edits[-1].new) == edits[-1]]
    changes = sorted({part for edit in line for part in _changes(edit)}, reverse=True)
    if len(line) < 2 or any(end >= start for (start, _, _), (_, end, _) in pairwise(changes)):
        return None
    text = edits[-1].old
    for start, end, new in changes:
        text = text[:start] + new + text[end:]
    return text


def _changes(edit: Edit) -> Iterator[tuple[int, int, str]]:  # start and end of each, and the new text
    for kind, start, end, low, high in SequenceMatcher(None, edit.old, edit.new, False).get_opcodes():
        if kind != "equal":
            yield start, end, edit.new[low:high]
