"""The difference of one proved repair from the best one, in one clause: what it keeps, copies or moves."""

from __future__ import annotations

from ..model import Edit
from ..model.text import listing, size
from .candidates import edits_of
from .fixers import FIXERS
from .outcome import Repair
from .project import Project

_NOTABLE = 16_000_000
"""Peak bytes of a run that exceed the measurement's noise."""


def places(repair: Repair, project: Project) -> str:
    """Return the lines that a repair changes, as ``in line 7``; empty if they are in several files."""
    edits = edits_of(project, repair.texts)
    if len({edit.path for edit in edits}) != 1:
        return ""
    lines = [str(line) for line in dict.fromkeys(_line(edit) for edit in edits)]
    return f"in line{'s' if len(lines) > 1 else ''} {listing(lines)}"


def _line(edit: Edit) -> int:
    """Return the first changed line; for inserted lines, the line before which they are inserted."""
    return edit.end_line + 1 if edit.new.startswith(f"{edit.old}\n") else edit.line


def difference(other: Repair, best: Repair) -> str:
    """Return the difference of another proved repair from the best one, in one clause; both have a proof.

    Args:
        other: A repair that is not taken.
        best: The repair that is taken.
    """
    assert other.proof is not None
    assert best.proof is not None
    clauses = [FIXERS[fixer].apart for fixer in dict.fromkeys(other.fixers) if fixer not in best.fixers]
    if not clauses:
        clauses = ["the same at another place" if other.titles == best.titles else "another form of the same"]
    clauses += [note for note in other.notes if note not in best.notes]
    more = other.proof.extra_bytes - best.proof.extra_bytes
    if abs(more) >= _NOTABLE:
        clauses.append(f"{size(abs(more))} {'more' if more > 0 else 'less'} memory at its peak")
    if best.proof.to_end and not other.proof.to_end:
        clauses.append(f"proved up to backward {other.proof.backward} only")
    return "; ".join(clauses)
