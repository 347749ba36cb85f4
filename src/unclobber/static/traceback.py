"""Candidates for a pasted traceback, from its text and the sources, without a run: ranked by all clues."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..model import Finding
from ._clues import CLUES, RULES, Context
from ._pasted import PastedKind, read_pasted
from ._rules import HIGH, MEDIUM, CheckRule, Suspicion
from ._sites import WriteSite
from ._tree import SourceTree
from ._values import SourceSpan
from .findings import finding_of

_MOST = 3  # candidates that are shown
_LEAD = 2.5  # points by which the first must lead to be confident
_LEAD_OF_A_SENTENCE = 4.0  # the same for a sentence without numbers and frames
_LARGE = 200  # files of a tree, of which a text without frames may mean any
_MOST_ALIKE = 4
_NO_LEAD = 0.05  # points below which two places are equally likely


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

    @staticmethod
    def of(text: str, paths: Iterable[str]) -> TracebackAnswer:
        """Return at most three causes of a pasted failure, the likeliest first.

        Args:
            text: The text that a user pastes into an issue.
            paths: Absolute paths of the Python files of the program.
        """
        context = Context(read_pasted(text), SourceTree(paths))
        causes = tuple(_cause(candidate, context) for candidate in _ranked(context))
        return TracebackAnswer(context.pasted.kind, causes, tuple(_unknown(context)))


# --- candidates ----------------------------------------------------------------------------------------
@dataclass
class TracebackCandidate:
    """A write that may have caused the failure."""

    writes: list[WriteSite]
    points: float
    why: tuple[str, ...]
    certainty: int
    suspicion: Suspicion | None  # the interpreter's own suspicion about the write
    is_confident: bool = False


def _ranked(context: Context) -> list[TracebackCandidate]:
    """Return the candidates, the best first."""
    pasted, tree = context.pasted, context.tree
    if pasted.kind is None:
        return []
    candidates = [_scored(site, context) for site in _sites(context)]
    candidates.sort(key=lambda each: each.points)
    candidates = [*{(each.writes[0].path, each.writes[0].line): each for each in candidates}.values()]
    candidates.sort(key=lambda each: -each.writes[0].loops)  # an inner loop's writes come after its saves
    if context.needed:  # of copies, the one near the frames comes first
        near = context.needed[-1].scope.path
        candidates.sort(key=lambda each: -len(os.path.commonpath([each.writes[0].path, near])))
    candidates.sort(key=lambda each: -round(each.points, 3))
    candidates = [each for each in _joined(candidates) if each.points > 0]
    if candidates:
        first, second = candidates[0], candidates[1].points if len(candidates) > 1 else 0.0
        known = context.said or context.folders or len(tree.files) <= _LARGE
        # A line that isn't known to write is mostly a call, where the text is cut.
        placed = first.writes[0] in tree.sites and (tree.located(context.own[-1:]) if context.own else known)
        lead = _LEAD if context.own or pasted.version is not None else _LEAD_OF_A_SENTENCE
        first.is_confident = bool(placed) and first.certainty >= 0 and first.points - second > lead - 0.001
    return candidates[:_MOST]


def _sites(context: Context) -> Iterator[WriteSite]:
    """Yield the places of the tree, and the line that torch refused if nothing is known to write there."""
    kind = context.pasted.kind
    sites = [site for site in context.tree.sites if (site.kind == "backward") is (kind == "second_backward")]
    sites = [each for each in sites if kind in ("saved", "expanded") or each.kind not in ("step", "load")]
    yield from sites
    if context.pasted.is_refused and context.needed:
        scope, at = context.needed[-1]
        if not any(s.path == scope.path and s.line <= at <= s.end_line for s in sites):
            width = len(context.tree.files[scope.path].lines[at - 1])
            span = SourceSpan(at, 0, at, width, at, at, scope.name)
            yield WriteSite(scope.path, at, at, "method", "", "", scope.name, span=span)


def _scored(site: WriteSite, context: Context) -> TracebackCandidate:
    """Return a place as a candidate, with the points of all clues."""
    clues = [clue for clues_of in CLUES for clue in clues_of(site, context)]
    strongest = sorted(clues, key=lambda clue: -clue.points)
    why = tuple(clue.reason for clue in strongest if clue.reason and clue.points > 0)
    # Those of another file, which calls this one, have their places there; what keeps a graph saves nothing.
    at, known = (site.path, site.line), context.suspicions(site)
    known = [each for each in known if each.rule is not CheckRule.RETAINED]
    own = [s for s in known if not (s.write and s.write.inner) or s.write.inner[:2] != at]
    suspicion = max(own, key=lambda s: s.confidence, default=None)
    points, certainty = sum(clue.points for clue in clues), sum(clue.certainty for clue in clues)
    return TracebackCandidate([site], points, why, certainty, suspicion)


def _joined(candidates: list[TracebackCandidate]) -> list[TracebackCandidate]:
    """Return the best candidates; what the facts don't distinguish is one of them."""
    taken: list[TracebackCandidate] = []
    for candidate in candidates:
        alike = next((other for other in taken if _is_alike(candidate, other)), None)
        if alike is not None:
            alike.writes += candidate.writes[: _MOST_ALIKE - len(alike.writes)]
        elif len(taken) <= _MOST:
            taken.append(candidate)
    return taken


def _is_alike(candidate: TracebackCandidate, other: TracebackCandidate) -> bool:
    """Return whether two places of one function, or of copies of one, differ in their lines alone."""
    same = any(_within(site) & _within(candidate.writes[0]) for site in other.writes)
    # Each of several steps breaks the one backward.
    steps = [s for s in (candidate.suspicion, other.suspicion) if s and s.rule is CheckRule.STEP and s.needed]
    both = len(steps) == 2 and len({step.needed for step in steps}) == 1
    return same and (both or abs(candidate.points - other.points) < _NO_LEAD)


def _within(site: WriteSite) -> set[tuple[str, ...]]:  # its function, and its statement in copies of that
    copied = site.kind, site.how, site.target, site.index, site.function.rpartition(".")[2]
    return {(site.path, site.function, site.kind), copied}


def _unknown(context: Context) -> Iterator[str]:
    """Yield a sentence for each thing that the text and the tree don't decide."""
    pasted = context.pasted
    if pasted.kind is None:
        yield "the text has none of torch's sentences about in-place operations or freed graphs"
        return
    if context.own and not (context.needed or context.saved):
        last = context.own[-1]
        yield f"no frame lies in this tree, not even {last.path}, line {last.line}: name its sources"
    if pasted.kind == "saved" and pasted.version is None:
        yield "the sentence has no shape and no versions: paste all of it"
    if pasted.kind == "saved" and not pasted.forward:
        yield "the text lacks the frames of the save: torch.autograd.set_detect_anomaly(True) prints them"


# --- their causes --------------------------------------------------------------------------------------
def _cause(candidate: TracebackCandidate, context: Context) -> TracebackCause:
    """Return a candidate with its places as reports name them, and its finding."""
    texts, suspicion = context.tree.texts, candidate.suspicion
    places = tuple(texts[site.path].place(site.line) for site in candidate.writes)
    needed, saved = (
        texts[frames[-1].scope.path].place(frames[-1].line) if frames else None
        for frames in (context.needed, context.saved)
    )
    if saved is None and suspicion is not None and suspicion.saved:
        saved = texts[candidate.writes[0].path].place(suspicion.saved.line)
    finding = _finding(candidate, context)
    return TracebackCause(places, saved, needed, candidate.why, candidate.is_confident, finding)


def _finding(candidate: TracebackCandidate, context: Context) -> Finding:
    """Return the finding of the interpreter's suspicion, or one of what is known of the write."""
    site, suspicion = candidate.writes[0], candidate.suspicion
    if suspicion is None:
        rule = CheckRule.STEP if site.kind == "step" else RULES[context.pasted.kind or "saved"][0]
        suspicion = Suspicion(rule, MEDIUM, site.span, how=site.how, name=site.target)
        if rule is CheckRule.TWICE:
            suspicion = suspicion._replace(write=None, needed=site.span)
    confidence = HIGH if candidate.is_confident else MEDIUM
    return finding_of(suspicion._replace(confidence=confidence), context.tree.texts[site.path])
