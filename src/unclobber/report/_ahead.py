"""Tensors that a refused backward would have refused next, as a short list with lines."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Finding
from . import _words as words
from ._cells import clean, wrap
from ._cells import width as cells
from ._notes import helps
from .story import offending, place

_WIDEST_PLACE = 28
_MOST = 8


def ahead_to_text(findings: Sequence[Finding], *, width: int = 80) -> str:
    """Return each finding with its line and the edit that may fix it; empty if there are none.

    Example:
        >>> from unclobber.model import Finding
        >>> print(ahead_to_text([Finding("UC101", "`gate` was overwritten")]))
        once that is cured, the same backward is refused for another overwritten tensor:
          an unknown line  `gate` was overwritten
    """
    if not findings:
        return ""
    many = f"{len(findings)} more overwritten tensors" if len(findings) > 1 else "another overwritten tensor"
    lines = [f"once that is cured, the same backward is refused for {many}:"]
    places = [clean(place(offending(finding))) for finding in findings]
    column = 2 + min(max(map(cells, places)), _WIDEST_PLACE) + 2
    for where, finding in list(zip(places, findings, strict=True))[:_MOST]:
        said = wrap(finding.message, max(width - column, 24))
        for fix in helps(finding):
            if fix.edits and fix.code:
                said += wrap(f"help: {words.tick(fix.code)}", max(width - column, 24))
        head = f"  {where}"
        if cells(head) > column - 2:
            lines.append(head)
            head = ""
        lines.append(head + " " * (column - cells(head)) + said[0])
        lines += [" " * column + line for line in said[1:]]
    if more := len(findings) - _MOST if len(findings) > _MOST else 0:
        lines.append(f"  and {more} more: --format json names them all")
    return "\n".join(lines)
