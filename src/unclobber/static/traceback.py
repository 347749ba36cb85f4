"""Candidates for a pasted traceback, from its text and the sources, without a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..model import Finding
from ._clues import RULES
from ._pasted import PastedKind, read_pasted
from ._ranking import TracebackCandidate, ranked
from ._rules import HIGH, MEDIUM, CheckRule, Suspicion
from ._tree import SourceTree
from .findings import finding_of


@dataclass(frozen=True, slots=True)
class TracebackCause:
    """A write that may have caused a failure, with its places: path and line."""

    writes: tuple[tuple[str, int], ...]
    """The first is the likeliest; the facts don't distinguish the others from it."""
    saved: tuple[str, int] | None
    needed: tuple[str, int] | None
    why: tuple[str, ...]  # the facts that speak for it, the strongest first; no full stops
    is_confident: bool
    finding: Finding  # the finding that a check would report there, for the fixers


@dataclass(frozen=True, slots=True)
class TracebackAnswer:
    """The causes that a pasted traceback may have."""

    kind: PastedKind | None  # None if the text has none of torch's sentences
    causes: tuple[TracebackCause, ...]
    unknown: tuple[str, ...]  # sentences about what stays unknown; no full stops
    lines: int  # lines of the sources

    @staticmethod
    def of(text: str, paths: Iterable[str]) -> TracebackAnswer:
        """Return at most three causes of a pasted failure, the likeliest first.

        Args:
            text: The text that a user pastes into an issue.
            paths: Absolute paths of the Python files of the program.
        """
        tree, pasted = SourceTree(paths), read_pasted(text)
        candidates, unknown = ranked(pasted, tree)
        causes = tuple(_cause(candidate, pasted.kind or "saved", tree) for candidate in candidates)
        return TracebackAnswer(pasted.kind, causes, tuple(unknown), tree.lines)


def _cause(candidate: TracebackCandidate, kind: PastedKind, tree: SourceTree) -> TracebackCause:
    places = tuple(tree.texts[site.path].place(site.line) for site in candidate.writes)
    why, finding = tuple(candidate.why), _finding(candidate, kind, tree)
    saved, needed = (at and tree.texts[at[0]].place(at[1]) for at in (candidate.saved, candidate.needed))
    return TracebackCause(places, saved, needed, why, candidate.is_confident, finding)


def _finding(candidate: TracebackCandidate, kind: PastedKind, tree: SourceTree) -> Finding:
    """Return the finding of the interpreter's suspicion, or one of what is known of the write."""
    site, suspicion = candidate.writes[0], candidate.suspicion
    if suspicion is None:
        rule = CheckRule.STEP if site.kind == "step" else RULES[kind][0]
        suspicion = Suspicion(rule, MEDIUM, site.span, how=site.how, name=site.target)
        if rule is CheckRule.TWICE:
            suspicion = suspicion._replace(write=None, needed=site.span)
    confidence = HIGH if candidate.is_confident else MEDIUM
    return finding_of(suspicion._replace(confidence=confidence), tree.texts[site.path])
