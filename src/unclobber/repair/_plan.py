"""Candidate edits for a finding, the smallest first."""

from __future__ import annotations

from collections.abc import Iterable

from ..model import Finding
from ..syntax import parse
from ._candidate import Candidate
from .diff import changed_lines
from .fixers import ALWAYS_IN_DOUBT, FIXERS
from .project import Project

MOST = 40
"""Limit of candidates for one finding."""


def candidates(finding: Finding, project: Project, *, certain: bool = False) -> list[Candidate]:
    """Return the fixers' candidates for a finding: fewest changed lines first, no duplicates, at most
    `MOST`.

    Args:
        certain: Return only candidates without a doubt, and skip the fixers whose candidates always have one.
    """
    ranked: list[tuple[int, bool, int, Candidate]] = []
    seen: set[frozenset[tuple[str, str]]] = set()
    for rank, (name, fixer) in enumerate(FIXERS.items()):
        if certain and name in ALWAYS_IN_DOUBT:
            continue
        for candidate in fixer(finding, project):
            texts = frozenset(candidate.texts.items())
            if certain and candidate.in_doubt:
                seen.add(texts)  # the same text from another fixer is as doubtful
            elif texts not in seen and _is_change(candidate, project):
                seen.add(texts)
                late = candidate.late or bool(candidate.shared_name)
                ranked.append((_cost(candidate, project), late, rank, candidate))
    ranked.sort(key=lambda item: item[:3])
    return [candidate for *_, candidate in ranked[:MOST]]


def has_any(finding: Finding, project: Project) -> bool:
    """Return whether there is any candidate, which is known once the first one is made."""
    return any(
        _is_change(candidate, project) for fixer in FIXERS.values() for candidate in fixer(finding, project)
    )


def _is_change(candidate: Candidate, project: Project) -> bool:
    """Return whether every text is Python and differs from the current one."""
    for path, text in candidate.texts.items():
        if text == project.text(path):
            return False
        try:
            parse(text)
        except (SyntaxError, ValueError):
            return False
    return bool(candidate.texts)


def _cost(candidate: Candidate, project: Project) -> int:
    return sum(changed_lines(project.text(path) or "", text) for path, text in candidate.texts.items())


def total_changed(project: Project, texts: Iterable[str]) -> int:
    """Return the number of changed lines of a project's overlay against the files on disk."""
    total = 0
    for path in texts:
        encoded = project.encoded(path)
        total += changed_lines(encoded.text if encoded else "", project.overlay[path])
    return total
