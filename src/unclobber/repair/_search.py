"""Search for the best edits that can be proved: candidates that hide no write first, then the smallest.

A program may need several edits before the failed backward succeeds, so each edit that turns one finding into
another is kept and built upon. Only the last state counts: it runs clean under ``watch(strict=True)``, has
the reference's gradients, and has the reference's end state. The reference is always the program as it is on
disk, never a half-edited one.
"""

from __future__ import annotations

import os
import re
import time
import traceback
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

from ..model import Finding, Interpretation, Site
from . import _hiding, _plan
from ._candidate import Candidate, interpretation_of
from ._job import CommandLine, Ended, HeldBy, Ran
from ._probes import WriteStatement
from ._trial import NO_BACKWARD, NO_GRADIENTS, Trial
from .fixers import FIXERS
from .outcome import BEYOND, Clean, Failed, Outcome, Proof, Proved, Repair, Unproved
from .project import Project
from .proof import Runner

DEEPEST = 8  # limit of edits in one repair
MOST_RUNS = 80
WIDE = 40  # runs without a proof after which the state with the most edits is the next one to be tried
MOST_LATER = 20  # of them for a later finding of the program's own, before it gets a search of its own
MOST_PROVED = 5
QUICK = 1.0  # seconds: a candidate for a slower reference runs to its end only before it is offered


@dataclass(frozen=True)
class _SearchState:
    """A state of the search: the project with some edits, and their reasons."""

    project: Project
    steps: tuple[Candidate, ...] = ()
    interpretations: frozenset[str] = frozenset()
    seen_findings: tuple[Any, ...] = ()  # on the way here; a repeated one means going round in circles
    lines: int = 0
    blind_holders: tuple[str, ...] = ()  # a note for each holder that would not see the write
    never_read_again: frozenset[str] = frozenset()

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Sort key, by what a reviewer minds: faults, then copies of tensors. Of equal ones those come first
        that have passed more findings, then the smallest."""
        return (*self.faults, self.copies, -len(self.steps), self.lines)

    @property
    def faults(self) -> tuple[bool, ...]:
        """The faults of a repair, of which no later state may have more than a proved one: a write out of the
        graph, copies of a module's parameters, a write that a holder may not see, whole buffers copied."""
        # A write that looks like a part of the computation may be taken out of the graph.
        drops = any(step.late and step.interpretation == Interpretation.NOT_RECORDED for step in self.steps)
        whole = any(step.whole for step in self.steps)
        return drops, bool(self._more(".functional_call(")), bool(self.blind_holders), whole

    @property
    def copies(self) -> int:  # counted in the text; a loop's copies are one
        return self._more(".clone(") + sum(step.late for step in self.steps)

    def _more(self, code: str) -> int:
        old, new = self.project.on_disk, self.project.overlay
        return sum(text.count(code) - (old.text(path) or "").count(code) for path, text in new.items())

    @property
    def comparable(self) -> bool:
        return bool(self.interpretations) and None not in self.interpretations


_ORDER = attrgetter("order")


@dataclass
class Search:
    """A search for a proved fix of a script's first finding.

    Nothing is written. The script runs many times, each time in a process of its own.
    """

    program: CommandLine
    runner: Runner
    first_only: bool = False  # whether to stop at the first proof, without looking for a better one
    progress: Callable[[str], None] = lambda _: None  # called with the title of each candidate before it runs
    solved: int = 0  # number of hazards that earlier searches have solved
    known: frozenset[Any] = frozenset()  # interpretations of what they have repaired, and the disk still has
    _tried: int = 0
    _queue: list[_SearchState] = field(default_factory=list)  # sorted by `order`
    _seen: set[frozenset[tuple[str, str]]] = field(default_factory=set)
    """The texts of all states, because the same edits in another order are the same state."""
    _held: Mapping[WriteStatement, HeldBy] = field(default_factory=dict)
    """The holders of the tensors that the first finding's statements write, in the program as it is."""
    _proposed_first: list[Candidate] = field(default_factory=list)  # the candidates for the first finding
    _cut_otherwise: list[_SearchState] = field(default_factory=list)
    """States that detach more than what an earlier backward has freed, or something else."""
    _cuts: bool = False  # whether the user may detach a state instead, see ``detach_state``
    _rejected: list[str] = field(default_factory=list)  # with the right gradients and another end state
    _nearest: tuple[int, str] = (0, "")
    """The last backward of the failed candidate that came furthest, and in words what came of it."""

    def __post_init__(self) -> None:
        self._trial = Trial(self.program, self.runner, beyond=BEYOND)

    def outcome(self, project: Project) -> Outcome:  # an internal error is an outcome
        try:
            return self._outcome(project)
        except Exception as error:
            return Failed(f"internal error: {type(error).__name__}: {error}", traceback.format_exc())

    def _outcome(self, project: Project) -> Outcome:
        """Run the program as it is, then look for a fix of its finding if it has one."""
        began = time.monotonic()
        self.progress("running the script as it is")
        first = self._trial.watched(project.overlay, whole=True)
        finding = first.finding
        if finding is None:
            why = "" if first.ended.well else first.error or first.ended.value
            if first.too_long:
                why = f"it was stopped after {self.runner.seconds_to_end:g} seconds; --to-end gives it longer"
            if first.lacks_input and os.isatty(0):
                why = "it reads its standard input, which is this terminal: use a file, `< FILE`"
            said = f"the program did not get to a finding: {why}"
            return Failed(said) if why else Clean(first.children)
        self._trial.until = first.failed_at or 1
        project = replace(project, loaded=first.loaded)
        start = _SearchState(project, interpretations=self.known)
        self.progress("running it twice under guard")
        # The fixers parse files while the children run.
        with ThreadPoolExecutor(1) as meanwhile:
            proposed = meanwhile.submit(_plan.candidates, finding, project)
            problem = self._not_deterministic(finding, first.backwards, edited=bool(project.overlay))
        if problem:
            return Unproved(finding, problem)
        self._proposed_first = proposed.result()
        offered = self._that_run_clean(
            _SearchState(project.with_texts(candidate.texts), (candidate,))
            for candidate in self._proposed_first
            if candidate.offered and (not self.first_only or FIXERS[candidate.fixer].cuts)
        )
        # Copies of all weights would keep the graphs of all turns, which a detached state does not.
        self._cuts = any(FIXERS[fixer].cuts for repair in offered for fixer in repair.fixers)
        proved, unproved, stopped = self._explore(start, finding, began)
        if not proved:
            kept = self._that_run_clean(self._keeping_the_gradient(project)) if offered else ()
            offered = kept + offered + self._that_run_clean(self._cut_otherwise[:2])
        if not proved and offered and not stopped:
            stopped = "what is known to help changes what is computed, so it is yours to decide"
        if proved:
            return Proved(finding, tuple(proved), offered)
        others = sum(not each.repaired for each in first.findings) - 1
        return Unproved(finding, stopped or self._reason(unproved), offered + tuple(unproved[:2]), others)

    def _keeping_the_gradient(self, project: Project) -> Iterator[_SearchState]:
        """Yield the edits that keep what an offered ``no_grad`` drops: each binds a new tensor to a name."""
        drops = any(each.offered and each.fixer == "no-grad" for each in self._proposed_first)
        for candidate in self._proposed_first if drops else ():
            if (name := candidate.shared_name) and not candidate.offered:
                noted = replace(candidate, note=f"what else holds `{name}` keeps the old values")
                yield _SearchState(project.with_texts(candidate.texts), (noted,))

    # --- the search -----------------------------------------------------------------------------

    def _explore(
        self, start: _SearchState, finding: Finding, began: float
    ) -> tuple[list[Repair], list[Repair], str]:
        """Try states, best first. Return proved and unproved repairs, and why the search stopped early."""
        proved: list[tuple[Repair, _SearchState]] = []
        unproved: list[Repair] = []
        partly: list[Repair] = []  # the first finding solved, and edits for the next one in the queue
        stopped = ""
        most, seconds = MOST_RUNS, 10 * self.runner.timeout
        self._push(start, finding, self._proposed_first)
        passed_over: list[_SearchState] = []  # what a proved state is simpler than
        while self._queue or passed_over:
            state = (self._queue or passed_over)[0]
            enough = self.first_only or len(proved) >= MOST_PROVED
            # States come best first, so no later one beats those that are proved.
            best = proved[0][1] if proved else state
            if proved and (enough or not self._queue or state.faults > best.faults):
                if confirmed := self._confirmed(proved):
                    return confirmed, unproved, ""
                # None of them holds to its end, so the search goes on (test_how_far.py,
                # test_where_none_of_the_best_holds_to_its_end).
                proved = []
                self._queue, passed_over = sorted(passed_over + self._queue, key=_ORDER), []
                continue
            # Each of five saves that one write overwrites needs a copy of its own, and all choices of four of
            # them would come before the five (test_fix.py, test_each_of_many_saves_needs_a_copy).
            edits = [len(state.steps) for state in self._queue]
            state = self._queue.pop(edits.index(max(edits)) if not proved and self._tried >= WIDE else 0)
            # Another way for one of several findings would be another way for all. But the first edit may be
            # what makes the next ones necessary (test_fix.py, test_an_edit_that_another_one_replaces).
            simpler = len(state.steps) < len(best.steps) and state.copies <= best.copies
            if proved and (state.lines > best.lines or not (simpler or len(best.steps) == 1)):
                passed_over.append(state)
                continue
            if self._tried >= most or time.monotonic() - began > seconds:
                limit = f"{most} candidates" if self._tried >= most else f"{seconds:g} seconds"
                stopped = f"the search ended after {limit}, before a cure was proved"
                break
            self._tried += 1
            proof = proved[0][0].proof if proved else None
            so_far = f", proved so far to backward {proof.backward}" if proof else ""
            known = max(len(each.steps) for each in (state, *self._queue))
            hazard = f"hazard {self.solved + len(state.steps)} of {self.solved + known}"
            number = f"candidate {self._tried} of {self._tried + len(self._queue)}{so_far}"
            self.progress(f"{hazard}, {number}: {state.steps[-1].title}")
            ran = self._watch(state)
            repair = None
            if ran.finding is not None and ran.failed_at <= self._trial.until + BEYOND:
                self._note(state, ran)
                # If another finding follows, the copy that was taken away may have been what kept it off.
                is_later = ran.failed_at >= self._trial.until
                if state.copies >= 0 and is_later and _finding_key(ran.finding) not in state.seen_findings:
                    seen = replace(state, seen_findings=(*state.seen_findings, _finding_key(ran.finding)))
                    goes_on = self._push(seen, ran.finding)
                    repair = self._proved_so_far(state, ran, ran.finding)
                    if repair is not None and goes_on:
                        most = min(most, self._tried + MOST_LATER)
                        partly.append(repair)
                        repair = None
            else:
                repair = self._proved(state, ran)
                clean = ran.ended.well and all(FIXERS[step.fixer].cuts for step in state.steps)
                if repair is None and clean:
                    self._cut_otherwise.append(state)
            if repair is not None and repair.proof is not None:
                proved.append((repair, state))
            elif repair is not None:
                unproved.append(repair)
        confirmed = self._confirmed(proved) or partly[:1]
        return confirmed, unproved, "" if confirmed else stopped

    def _push(self, state: _SearchState, finding: Finding, proposed: list[Candidate] | None = None) -> bool:
        """Queue a state's follow-ups, one for each new candidate of its finding; return whether any is."""
        if len(state.steps) >= DEEPEST:
            return False
        seen_findings = state.seen_findings or (_finding_key(finding),)
        if proposed is None:
            proposed = _plan.candidates(finding, state.project)
        # A later finding that a detached state may solve is for a search of its own.
        cuts = self._cuts or (bool(state.steps) and any(p.offered and FIXERS[p.fixer].cuts for p in proposed))
        candidates = [p for p in proposed if not p.offered and not (cuts and FIXERS[p.fixer].keeps_graphs)]
        before = len(self._queue)
        held = self._held
        if candidates and state.project.overlay:
            interpretations = (state.interpretations | _interpretations(finding)) - {None}
            held = self._trial.holders(state.project.overlay, interpretations, _hiding.probes_of(finding))
        for candidate in candidates:
            project = state.project.with_texts(candidate.texts)
            key = frozenset(project.overlay.items())
            if key in self._seen:
                continue
            self._seen.add(key)
            hidden = _hiding.hidden(candidate, finding, state.project, held)
            new = _SearchState(
                project,
                (*state.steps, _plan.with_note(candidate, finding, state.project)),
                state.interpretations | _interpretations(finding, candidate.interpretation),
                seen_findings,
                project.on_disk.lines_changed(project.overlay),
                (*state.blind_holders, *filter(None, [hidden.note])),
                state.never_read_again | hidden.never_read_again | candidate.unbinds,
            )
            insort(self._queue, new, key=_ORDER)
        return len(self._queue) > before

    def _note(self, state: _SearchState, ran: Ran, why: str = "") -> None:
        """Keep how a run failed, or ``why``, if none has come further; of equals the first, the likelier."""
        finding = ran.finding and f"{ran.finding.code} at backward {ran.failed_at}"
        steps = ", then ".join(step.title for step in state.steps)
        if ran.backwards > self._nearest[0]:
            how = finding or why or ran.error or ran.ended.value
            self._nearest = ran.backwards, f"; furthest came the one to {steps}: {how}"

    def _proved(self, state: _SearchState, ran: Ran) -> Repair | None:
        """Return the state as a repair: without proof if none can be made; None if the state is wrong."""
        if ran.ended in (Ended.TIMEOUT, Ended.DIED):
            self._note(state, ran)
            return None
        if not state.comparable:
            return None if ran.ended is Ended.ERROR else _repair(state, None)
        reference = self._trial.reference(state.interpretations)
        if ran.ended is Ended.ERROR and ran.error != reference.ran.error:
            self._note(state, ran)
            return None
        proof = self._trial.proof(ran, reference)
        if isinstance(proof, str):
            self._note(state, ran, proof)
            is_shown = proof in (NO_BACKWARD, NO_GRADIENTS) and ran.ended.well and not ran.at_end
            return _repair(state, None) if is_shown else None
        if Interpretation.NOT_RECORDED in state.interpretations:
            # A leaf that only a recorded write leads to would get no gradient.
            recorded = state.interpretations - {Interpretation.NOT_RECORDED} | {Interpretation.RECORDED}
            if self._trial.reference(recorded).ran.leaves > ran.leaves:
                self._cut_otherwise.append(state)
                return None
        if ran.at_end:
            self._rejected.append(f"{state.steps[-1].title}: {ran.at_end[0].how}")
            return None
        return _repair(state, proof)

    def _proved_so_far(self, state: _SearchState, ran: Ran, later: Finding) -> Repair | None:
        """Return a state as a repair of the first finding if a later one is the program's own; else None."""
        kept = Interpretation.KEPT in state.interpretations  # then the next finding may be about that graph
        if ran.failed_at <= self._trial.until or not state.comparable or kept:
            return None
        reference = self._trial.reference(state.interpretations)
        if _hazard(later) not in map(_hazard, reference.ran.findings):
            return None
        proof = self._trial.proof(ran, reference)
        return None if isinstance(proof, str) else _repair(state, proof)

    def _confirmed(self, repairs: list[tuple[Repair, _SearchState]]) -> list[Repair]:
        """Return the repairs, the best one first.

        If runs to the end are long, only the best one runs to its end, and the next one if that fails.
        """
        ordered = sorted(repairs, key=lambda pair: _rank(pair[0]))
        ordered = [pair for pair in ordered if len(pair[1].steps) <= len(ordered[0][1].steps)]
        proved = [repair for repair, _ in ordered]
        if self._trial.not_to_end or self._goes_to_end():
            return proved
        for number, (repair, state) in enumerate(ordered):
            self.progress(f"running to the end: {repair.titles[-1]}")
            again = self._proved(state, self._watch(state, to_end=True))
            if again is not None:
                return [again, *proved[number + 1 :]]
        return []

    def _that_run_clean(self, states: Iterable[_SearchState]) -> tuple[Repair, ...]:
        """Return the first of the states that run clean, compared with nothing."""
        shown: list[Repair] = []
        for state in states:
            if len(shown) < 3 and self._tried < MOST_RUNS:
                self._tried += 1
                ran = self._trial.watched(state.project.overlay)
                if ran.finding is not None or not ran.ended.well:
                    self._note(state, ran)
                else:
                    shown.append(replace(_repair(state, None), applicable=False))
        return tuple(shown)

    # --- running --------------------------------------------------------------------------------

    def _watch(self, state: _SearchState, *, to_end: bool | None = None) -> Ran:
        """Run a state under ``watch``, compared with the reference if it has one."""
        if not state.comparable:
            return self._trial.watched(state.project.overlay)
        return self._trial.changed(
            state.project.overlay,
            self._trial.reference(state.interpretations),
            to_end=self._goes_to_end() if to_end is None else to_end,
            never_read_again=state.never_read_again,
            detaches=bool(state.interpretations & {Interpretation.CUT, Interpretation.VIEW_DETACHED}),
            moves=any(step.moves for step in state.steps),
        )

    def _goes_to_end(self) -> bool:
        runs = [reference.ran for reference in self._trial.references.values()]
        return all(not ran.too_long and ran.seconds < QUICK for ran in runs)

    def _not_deterministic(self, finding: Finding, started: int, *, edited: bool) -> str:
        """Run the reference twice. Return why no proof can be made; empty if one can.

        The very first run ``started`` some backward calls; ``edited``: some edits are decided already.
        """
        interpretations = self.known | _interpretations(finding)
        if None in interpretations:
            return ""
        # In an edited program the statements that write may be elsewhere than in the one on disk.
        probes = () if edited else _hiding.probes_of(finding)
        reference = self._trial.reference(interpretations, probes)
        self._held = reference.ran.held
        return self._trial.why_not_steady(reference, started)

    def _reason(self, unproved: list[Repair]) -> str:
        """Return the reason why nothing was proved, as a clause."""
        if self._rejected:
            only = "" if len(self._rejected) == 1 else f" (and {len(self._rejected) - 1} more like it)"
            return f"the script would not do the same to its end: {self._rejected[0]}{only}"
        references = (reference.ran for reference in self._trial.references.values())
        short = next((r for r in references if r.backwards < self._trial.until or r.finding), None)
        if unproved and not (short and short.finding):
            return f"a cure runs clean, but {NO_BACKWARD if short else NO_GRADIENTS}"
        if not self._tried:
            return "no edit is known for these lines"
        if short and not short.ended.well:
            return f"the program as it is could not be run for comparison ({short.problem})"
        return f"none of {self._tried} candidates runs clean with the same gradients{self._nearest[1]}"


_WHOLE = "each turn copies all of `{}`, and backward keeps the copies: the square of its memory"


def _interpretations(finding: Finding, own: Interpretation | None = None) -> frozenset[Any]:
    return frozenset({own or interpretation_of(finding)})


def _repair(state: _SearchState, proof: Proof | None) -> Repair:
    """Return a state as a repair."""
    wholes = (step.whole and _WHOLE.format(step.whole) for step in state.steps)
    notes = dict.fromkeys([*(step.note for step in state.steps), *wholes, *state.blind_holders])
    return Repair(
        titles=tuple(step.title for step in state.steps),
        fixers=tuple(step.fixer for step in state.steps),
        texts=state.project.overlay,
        proof=proof,
        notes=tuple(filter(None, notes)),
        costs=(*state.faults, state.copies, state.lines),
        interpretations=state.interpretations,
    )


def _rank(repair: Repair) -> tuple[float, ...]:
    """Return the sort key of a proved repair.

    Repairs proved to the end come first, then those that drop no gradient, copy no parameters and hide no
    write. Then the key compares copies, changed lines, edits, extra memory and time. Measured values are
    rounded to steps coarser than their noise, so that equal edits keep the order of the table. Time is the
    processor's, because a busy machine must not decide what is offered.
    """
    assert repair.proof is not None
    return (
        not repair.proof.to_end,
        *repair.costs,
        len(repair.titles),
        round(max(0, repair.proof.extra_bytes) / 16e6),
        int(max(0.0, repair.proof.cpu_seconds) / 2.0),
    )


def _finding_key(finding: Finding) -> Any:
    """Return a key that still matches the finding after edits of other lines and `.clone()` in its own."""
    saved = finding.saved
    return (
        # Without the backward calls, whose lines an edit may change, too.
        replace(finding, needed=None, freed=None).identity(_words),
        None if saved is None else (saved.role, saved.name, saved.nth),
        tuple(write.operation for write in finding.writes),
        None if finding.needed is None else finding.needed.nth,
    )


def _hazard(finding: Finding) -> Any:
    """Return a key of what goes wrong when, which edits of the lines that save and write leave as it is."""
    site = None if finding.saved is None else finding.saved.site
    return finding.code, finding.needed and finding.needed.nth, site and site.function


def _words(site: Site | None) -> Any:
    return site and (site.function, _COPY.sub("", site.statement), _COPY.sub("", site.source))


_COPY = re.compile(r"\.(clone|detach)\(\)|[()]")  # and parentheses that a copy needed
