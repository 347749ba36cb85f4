"""A program that is run again and again: as it is, under ``guard``, and with changes.

Every run with a change is compared with a reference: the program on disk under ``guard``, never a half-edited
one. A run proves a change if its losses, gradients and, where both get there, its end are the reference's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..model import Interpretation
from . import _leftovers
from ._job import Against, CommandLine, Ended, HeldBy, Job, Ran, Slot
from ._probes import WriteStatement
from .outcome import Proof
from .proof import Runner

NO_GRADIENTS = "there is no gradient other than zero to compare"
NO_BACKWARD = "no backward call was seen to compare (those of torch.func are not)"
_NO_END = "it does not come to an end under guard"
_TOO_LONG = "it runs longer than {:g} seconds"


@dataclass(frozen=True)
class Reference:
    """The program on disk under ``guard``, with one set of interpretations."""

    interpretations: frozenset[str]
    ran: Ran
    file: str


@dataclass
class Trial:
    """Runs of one program."""

    program: CommandLine
    runner: Runner
    until: int = 1  # the backward call that is compared last in any case
    beyond: int = 0  # number of backward calls after it that are run and compared as well
    not_to_end: str = ""  # the reason why no run can be compared at its end, as a clause
    left_out: tuple[str, ...] = ()
    """Parts that are not compared at the end, because runs of the program as it is differ in them."""
    references: dict[frozenset[str], Reference] = field(default_factory=dict)
    _since: int = field(default_factory=time.time_ns)  # files that are written from now on are the runs'
    _nondeterministic: frozenset[str] = frozenset()
    _unsteady: frozenset[Slot] = frozenset()

    def watched(self, texts: Mapping[str, str], *, whole: bool = False) -> Ran:
        """Run the program with some texts, compared with nothing."""
        job = self._job(texts)
        return self.runner.run(replace(job, stop_after=None) if whole else job)

    def reference(
        self, interpretations: frozenset[str], probes: tuple[WriteStatement, ...] = ()
    ) -> Reference:
        """Return the program on disk under ``guard``, with some interpretations; run once."""
        if interpretations not in self.references:
            # With the compared call in its name, because the rounds of a repair share the runner's folder.
            file = self.runner.file(f"reference-{len(self.references)}-{self.until}")
            job = replace(self._guarded({}, interpretations), record_to=file, probes=probes)
            ran = self.runner.run(replace(job, to_end=bool(self.beyond)))
            self.references[interpretations] = reference = Reference(interpretations, ran, file)
            # The first one may find no end where this one does, which then needs its second run, too.
            if len(self.references) > 1 and self.not_to_end == _NO_END:
                self._look_at_ends(ran, self._again(reference))
        return self.references[interpretations]

    def holders(
        self, texts: Mapping[str, str], interpretations: frozenset[str], probes: tuple[WriteStatement, ...]
    ) -> Mapping[WriteStatement, HeldBy]:
        return self.runner.run(replace(self._guarded(texts, interpretations), probes=probes)).held

    def changed(
        self, texts: Mapping[str, str], reference: Reference, *, to_end: bool = False, **meant: Any
    ) -> Ran:
        """Run the program with a change, compared with a reference. ``to_end`` goes on, and compares the
        end as well; ``Against`` has what a change may be meant to do."""
        against = Against(reference.file, self._nondeterministic, self._unsteady, **meant)
        return self.runner.run(replace(self._job(texts), against=against, to_end=to_end))

    def _guarded(self, texts: Mapping[str, str], interpretations: frozenset[str]) -> Job:
        job = self._job(texts)
        return replace(job, interpretations=interpretations - {Interpretation.AS_WRITTEN}, since=self._since)

    def _job(self, texts: Mapping[str, str]) -> Job:
        return Job(self.program, dict(texts), stop_after=self.until + self.beyond, until=self.until)

    # --- what a run says --------------------------------------------------------------------------

    def why_not_steady(self, reference: Reference, started: int) -> str:
        """Run the reference a second time. Return why nothing can be compared with it, as a clause; empty if
        something can. By itself the program on disk ``started`` some calls."""
        first = reference.ran
        # A checkpoint of the first run may end the next one early (test_fix.py,
        # test_a_script_that_its_own_checkpoint_ends).
        if first.backwards < self.until:
            earlier = first.ended is Ended.FINISHED and first.backwards < started
            left = _leftovers.blame({}, first.leftovers) if earlier else ""
            return f"the program ends earlier when it is run again: {left}" if left else ""
        again = self._again(reference)
        comparison = again.comparison
        if comparison is not None and comparison.why and comparison.reached:
            left = _leftovers.blame(first.leftovers, again.leftovers)
            return (
                f"two runs of the program as it is give {comparison.why}, so nothing can be proved"
                f"{f': {left}' if left else '; give every source of randomness a fixed seed'}"
            )
        self._look_at_ends(first, again)
        return ""

    def _again(self, reference: Reference) -> Ran:
        job = self._guarded({}, reference.interpretations)
        against = Against(reference.file, exactly=True)
        return self.runner.run(replace(job, against=against, to_end=not reference.ran.too_long))

    def _look_at_ends(self, first: Ran, again: Ran) -> None:
        """Note whether two runs of the program as it is have equal end states, or which entries differ."""
        numbers = [entry for entry in again.at_end or () if entry.slots]
        others = [entry for entry in again.at_end or () if not entry.slots]
        unequal = [entry for entry in others if not entry.plain]
        if first.too_long or again.too_long:
            self.not_to_end = _TOO_LONG.format(self.runner.seconds_to_end)
        elif first.lacks_input:
            self.not_to_end = "it asks for input"
        elif again.at_end is None:
            self.not_to_end = _NO_END
        else:
            self.not_to_end = f"two runs of it differ: {unequal[0].how}" if unequal else ""
        self._nondeterministic = frozenset(entry.what for entry in others)
        self._unsteady = frozenset(slot for entry in numbers for slot in entry.slots)
        self.left_out = (
            *(f"`{entry.what}`" for entry in others if entry.plain),
            *(f"a number in {entry.what}" for entry in numbers),
        )

    def proof(self, ran: Ran, reference: Reference) -> Proof | str:
        """Return the proof that a changed run gives; else the reason why it gives none, as a clause."""
        comparison = ran.comparison
        if reference.ran.ended.well and reference.ran.backwards < self.until:
            return NO_BACKWARD
        if comparison is None or comparison.why is not None or not comparison.gradients:
            return (comparison and comparison.why) or NO_GRADIENTS
        mismatch = self._why_not_to_end(ran, reference.ran)
        return Proof(
            interpretation=" and ".join(sorted(reference.interpretations - {Interpretation.AS_WRITTEN}))
            or Interpretation.AS_WRITTEN,
            backward=comparison.compared,
            leaves=comparison.leaves,
            calls=ran.backwards,
            largest_difference=comparison.largest_difference,
            seconds=ran.seconds - reference.ran.seconds,
            cpu_seconds=ran.cpu_seconds - reference.ran.cpu_seconds,
            extra_bytes=ran.peak_bytes - reference.ran.peak_bytes,
            to_end=not mismatch,
            why_not_to_end=mismatch,
            left_out=(*self.left_out, *(f"the times in {name}" for name in ran.times)),
        )

    def _why_not_to_end(self, ran: Ran, reference: Ran) -> str:
        """Return why a run is no proof to the end; empty if it is one."""
        if ran.ended is Ended.FINDING:
            return "another finding follows"
        if self.not_to_end:
            return self.not_to_end
        if reference.too_long or ran.too_long:
            return _TOO_LONG.format(self.runner.seconds_to_end)
        return "" if ran.at_end is not None else "only the best way is run to its end"
