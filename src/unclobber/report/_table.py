"""Many findings as a table: code, line, number of occurrences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..model import Finding
from . import _words as words
from ._cells import clean
from ._cells import width as cells
from .story import offending, place


def to_table(findings: Sequence[Finding]) -> str:
    """Return one line for each code at each place, with its number of occurrences; no newline at the end.

    Example:
        >>> from unclobber.model import Finding
        >>> print(to_table([Finding("UC102", "a", times=3), Finding("UC102", "b")]))
        2 more findings:
          code   name                        times  line
          UC102  saved-overwritten-silently      4  an unknown line
    """
    times: Counter[tuple[str, str, str]] = Counter()
    for finding in findings:
        times[finding.code, finding.name, clean(place(offending(finding)))] += finding.times
    widest = max(cells(name) for _, name, _ in times)
    lines = [f"{words.plural(len(findings), 'more finding')}:", f"  code   {'name':{widest}}  times  line"]
    for (code, name, where), count in times.most_common():
        lines.append(f"  {code}  {name:{widest}}  {count:5}  {where}")
    return "\n".join(lines)
