"""Candidates for a pasted traceback: the places of a tree, ranked by all clues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ._clues import CLUES, Context
from ._pasted import Pasted
from ._rules import CheckRule, Suspicion
from ._sites import WriteSite
from ._tree import SourceTree
from ._values import SourceSpan

MOST = 3  # candidates that are shown
_LEAD = 2.0  # points by which the first must lead to be confident
_ENOUGH = 4.6  # its lead, with two fifths of its points, must reach this, too
_MOST_ALIKE = 4
_NO_LEAD = 0.05  # points below which two places are equally likely


@dataclass
class TracebackCandidate:
    """A write that may have caused the failure."""

    writes: list[WriteSite]
    points: float
    why: list[str]
    saved: tuple[str, int] | None = None  # the path and line of the save, if something says it
    needed: tuple[str, int] | None = None
    suspicion: Suspicion | None = None  # the interpreter's own suspicion about the write
    is_confident: bool = False


def ranked(pasted: Pasted, tree: SourceTree) -> tuple[list[TracebackCandidate], list[str]]:
    """Return the candidates, the best first, and sentences about what stays unknown."""
    context = Context(pasted, tree)
    unknown = list(_unknown(context))
    if pasted.kind is None:
        return [], unknown
    candidates = [_scored(site, context) for site in _sites(context) if _may_be(site, pasted)]
    candidates.sort(key=lambda candidate: candidate.points)
    best = {(each.writes[0].path, each.writes[0].line): each for each in candidates}  # one for each line
    candidates = sorted(best.values(), key=lambda candidate: -candidate.points)
    candidates = [each for each in list(_joined(candidates))[: MOST + 1] if each.points > 0]
    if candidates:
        first, second = candidates[0], candidates[1].points if len(candidates) > 1 else 0.0
        is_placed = not context.own and pasted.kind in ("saved", "second_backward")  # others have frames
        is_placed |= bool(tree.located(context.own[-1:])) and first.writes[0] in tree.sites
        lead = first.points - second
        first.is_confident = is_placed and lead >= _LEAD and lead + 0.4 * first.points >= _ENOUGH
    return candidates[:MOST], unknown


def _sites(context: Context) -> Iterator[WriteSite]:
    """Yield the places of the tree, and the line that torch refused if nothing is known to write there."""
    yield from context.tree.sites
    if context.is_refused and context.needed:
        scope, at = context.needed[-1]
        if not any(s.path == scope.path and s.line <= at <= s.end_line for s in context.tree.sites):
            width = len(context.tree.files[scope.path].lines[at - 1])
            span = SourceSpan(at, 0, at, width, at, at, scope.name)
            yield WriteSite(scope.path, at, at, "method", "", "", scope.name, span=span)


def _may_be(site: WriteSite, pasted: Pasted) -> bool:
    if pasted.kind == "second_backward":
        return site.kind == "backward"
    may_step = pasted.kind in ("saved", "expanded")  # a parameter may be an expanded tensor
    return site.kind != "backward" and (may_step or site.kind not in ("step", "load"))


def _scored(site: WriteSite, context: Context) -> TracebackCandidate:
    """Return a place as a candidate, with the points of all clues."""
    clues = [clue for clues_of in CLUES for clue in clues_of(site, context)]
    strongest = sorted(clues, key=lambda clue: -clue.points)
    why = [clue.reason for clue in strongest if clue.reason and clue.points > 0]
    suspicion = max(context.suspicions(site), key=lambda s: s.confidence, default=None)
    saved = (site.path, suspicion.saved.line) if suspicion is not None and suspicion.saved else None
    if context.saved:
        saved = context.saved[-1].scope.path, context.saved[-1].line
    needed = (context.needed[-1].scope.path, context.needed[-1].line) if context.needed else None
    return TracebackCandidate([site], sum(clue.points for clue in clues), why, saved, needed, suspicion)


def _joined(candidates: list[TracebackCandidate]) -> Iterator[TracebackCandidate]:
    """Yield the candidates; what the facts don't distinguish in one function is one of them."""
    taken: list[TracebackCandidate] = []
    for candidate in candidates:
        alike = next((other for other in taken if _is_alike(candidate, other)), None)
        if alike is None:
            taken.append(candidate)
        elif len(alike.writes) < _MOST_ALIKE:
            alike.writes.append(candidate.writes[0])
    yield from taken


def _is_alike(candidate: TracebackCandidate, other: TracebackCandidate) -> bool:
    """Return whether two places of one function differ in their lines alone, by the facts."""
    site, first = candidate.writes[0], other.writes[0]
    same = (site.path, site.function, site.kind) == (first.path, first.function, first.kind)
    # Each of several steps breaks the one backward.
    steps = [s for s in (candidate.suspicion, other.suspicion) if s and s.rule is CheckRule.STEP and s.needed]
    both = len(steps) == 2 and len({step.needed for step in steps}) == 1
    return same and (both or abs(candidate.points - other.points) < _NO_LEAD)


# --- what stays unknown --------------------------------------------------------------------------------
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
