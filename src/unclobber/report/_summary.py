"""The one greppable line of a finding."""

from __future__ import annotations

from ..model import Finding
from ._cells import clean
from ._notes import place
from .story import made_at, offending, offending_write

_WORDING: dict[str, tuple[str, str]] = {
    "UC101": ("{write} overwrites", " what {saved} saved"),
    "UC102": ("{write} overwrites", " what {saved} saved"),
    "UC103": ("{write} overwrites", " what {saved} kept on ctx"),
    "UC104": ("{write} changes a gradient", " that {needed} still needs"),
    "UC105": ("{needed} recomputes other values", " than {saved} saved"),
    "UC201": ("{write} writes to a leaf that requires grad", ", made at {saved}"),
    "UC202": ("{write} writes to a view of a leaf that requires grad", ", made at {saved}"),
    "UC203": ("{write} writes to one of several views", " made at {saved}"),
    "UC204": ("{write} writes to a view made with grad mode off", " at {saved}"),
    "UC205": ("{write} writes to a view from a custom Function", ", made at {saved}"),
    "UC206": ("{offending} uses an inference tensor", " made at {made}"),
    "UC207": ("{write} writes to an expanded tensor", ", made at {saved}"),
    "UC208": ("{write} detaches a view in place", ", made at {saved}"),
    "UC301": ("{needed} needs the graph", " that {freed} freed"),
}
"""For each code the sentence, and its second half, left out where its place is not known."""

_DIRTY = ("{write} changes a tensor in place", " that is marked dirty and not returned")
"""UC103 where nothing was kept: a forward whose ``mark_dirty`` torch refuses."""

_UNMARKED = ("{write} overwrites", " what {saved} handed to it, without mark_dirty")
"""UC103 where a forward overwrites its input: what is held has no role."""

_DETACHED = "{write} detaches"
"""UC101 where ``detach_`` took a saved tensor's history."""

_MISREAD = ("{write} overwrites", " what it still reads")
"""UC102 where nothing was saved: an operation that overlaps its own input."""

_HARMLESS = {"UC101": "{write} writes to the storage of", "UC102": "{write} writes to the storage of"}
"""First halves for writes that changed no needed value."""


def summary_line(finding: Finding) -> str:
    """One line for ``grep``, never wrapped: code, name, then which line does what to which.

    Example:
        ``SUMMARY: UC101 saved-overwritten train.py:14 overwrites what train.py:12 saved``
    """
    first, second = _WORDING[finding.code]
    if finding.code == "UC103" and finding.saved is None:
        first, second = _DIRTY
    elif finding.code == "UC103" and finding.saved is not None and finding.saved.role is None:
        first, second = _UNMARKED
    if finding.code == "UC102" and finding.saved is None:
        first, second = _MISREAD
    if finding.harmless:
        first = _HARMLESS.get(finding.code, first)
    write = offending_write(finding)
    if finding.code == "UC101" and write is not None and write.operation == "detach_":
        first = _DETACHED
    sites = {
        "offending": offending(finding),
        "write": write.site if write else None,
        "saved": finding.saved.site if finding.saved else None,
        "made": made_at(finding),
        "needed": finding.needed.site if finding.needed else None,
        "freed": finding.freed.site if finding.freed else None,
    }
    places = {key: place(site) for key, site in sites.items()}
    known = any(site and f"{{{key}}}" in second for key, site in sites.items())
    # These two are no sentence without their second half.
    if not known and finding.code not in ("UC101", "UC102", "UC103", "UC301"):
        second = ""
    return clean(f"SUMMARY: {finding.code} {finding.name} {(first + second).format(**places)}")
