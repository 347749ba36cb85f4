"""The outcomes of an attempt at a repair, all picklable. The runner never raises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..model import Finding, Interpretation
from ..model.text import listing, plural, size
from ._diff import line_of
from .project import Project

BEYOND = 2  # number of backward calls after the failed one that are run and compared as well


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of comparing a candidate's run with the reference's."""

    interpretation: str  # the reference's interpretation of the program, as a phrase: ``as written``
    backward: int  # the last backward call at which gradients were compared, 1-based
    leaves: int  # leaves whose gradients were compared there
    calls: int = 0  # backward calls of the whole run
    largest_difference: float = 0.0
    """Largest difference relative to the largest gradient element of its tensor; 0 if bit-equal."""
    seconds: float = 0.0  # wall time of the candidate's run minus that of the reference, in seconds
    cpu_seconds: float = 0.0
    """Processor time of the candidate's run minus that of the reference, in seconds over all threads; other
    work of the machine is not in it."""
    extra_bytes: int = 0  # peak memory of the candidate's process minus that of the reference's, in bytes
    to_end: bool = True
    """Whether both ran to their ends with equal end states: output, files, state, random generators."""
    why_not_to_end: str = ""  # a clause that says why not; empty if ``to_end``
    left_out: tuple[str, ...] = ()
    """Parts, as nouns, not compared at the end, because runs of the program as it is differ in them."""

    @property
    def verified(self) -> str:
        return "whole-run" if self.to_end else f"backward-{self.backward}"

    @property
    def sentence(self) -> str:
        """How far the repair is proved and how exactly values agree; no full stop."""
        far = self.largest_difference
        how = f"within {far:.1g} of the largest element" if far else "bit for bit"
        guarded = self.interpretation == Interpretation.AS_WRITTEN
        what = f"the script {self.interpretation}{' under guard' * guarded}"
        leaves = plural(self.leaves, "leaf", "leaves")
        if not self.to_end:
            return (
                f"proved up to backward {self.backward}: loss and gradients of {leaves} equal those of "
                f"{what}, {how}; not to the end, because {self.why_not_to_end}"
            )
        left_out = f"; left out, as it changes from run to run: {listing(self.left_out)}"
        calls = plural(max(self.calls, self.backward), "backward call")
        if self.calls > self.backward:
            calls = f"the first {self.backward} of {calls}, {BEYOND} beyond the one that failed"
        return (
            f"proved to the end: output, files and state are those of {what}, and so are loss and gradients "
            f"of {leaves}, {how}, at {calls}{left_out if self.left_out else ''}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the proof as JSON values."""
        return {
            "reading": self.interpretation,
            "verified": self.verified,
            "why_not_to_end": self.why_not_to_end or None,
            "left_out": list(self.left_out),
            "backward_calls": self.backward,
            "leaves": self.leaves,
            "largest_relative_difference": self.largest_difference,
            "extra_seconds": round(self.seconds, 3),
            "extra_bytes": self.extra_bytes,
        }


_NOTABLE = 16_000_000  # peak bytes of a run that exceed the measurement's noise


@dataclass(frozen=True, slots=True)
class Repair:
    """Edits that belong together, with their proof if there is one."""

    titles: tuple[str, ...]  # the edits' phrases, in the order in which they were found
    fixers: tuple[str, ...]
    texts: Mapping[str, str]  # absolute path to the whole new text
    proof: Proof | None = None
    notes: tuple[str, ...] = ()  # warnings for the user: side effects of the edits, or the interpretation
    costs: tuple[int, ...] = ()  # its faults, the copies of tensors that it adds, and the changed lines
    interpretations: frozenset[Any] = frozenset()  # the reference's, for what it repairs
    applicable: bool = True  # false for edits that change the result: they are shown, never written

    @property
    def title(self) -> str:
        return ", then ".join(dict.fromkeys(self.titles))

    def places(self, project: Project) -> str:
        """Return `in line 7`; for inserted lines the line before which they are, empty for several files."""
        edits = project.edits(self.texts)
        if len({edit.path for edit in edits}) != 1:
            return ""
        lines = [*dict.fromkeys(str(line_of(edit)) for edit in edits)]
        return f"in line{'s' if len(lines) > 1 else ''} {listing(lines)}"

    def difference_from(self, best: Repair) -> str:
        """Return the difference from the best repair, in one clause: what it keeps, copies or moves."""
        from .fixers import FIXERS

        assert self.proof is not None
        assert best.proof is not None
        clauses = [FIXERS[fixer].apart for fixer in dict.fromkeys(self.fixers) if fixer not in best.fixers]
        if not clauses:
            same = self.titles == best.titles
            clauses = ["the same at another place" if same else "another form of the same"]
        clauses += [note for note in self.notes if note not in best.notes]
        more = self.proof.extra_bytes - best.proof.extra_bytes
        if abs(more) >= _NOTABLE:
            clauses.append(f"{size(abs(more))} {'more' if more > 0 else 'less'} memory at its peak")
        if best.proof.to_end and not self.proof.to_end:
            clauses.append(f"proved up to backward {self.proof.backward}: {self.proof.why_not_to_end}")
        return "; ".join(clauses)


@dataclass(frozen=True, slots=True)
class Proved:
    """At least one candidate runs clean with the right gradients; the best one first."""

    finding: Finding
    repairs: tuple[Repair, ...]
    offered: tuple[Repair, ...] = ()

    @property
    def best(self) -> Repair:
        return self.repairs[0]


@dataclass(frozen=True, slots=True)
class Unproved:
    """There is a finding, and no candidate could be proved."""

    repairs: ClassVar[tuple[Repair, ...]] = ()
    finding: Finding
    reason: str  # the reason in one sentence, without a trailing full stop
    offered: tuple[Repair, ...] = ()
    others: int = 0  # further findings of the same run


@dataclass(frozen=True, slots=True)
class Clean:
    """The program runs without a finding."""

    children: bool = False  # whether it starts processes, in which nothing is seen here


@dataclass(frozen=True, slots=True)
class Failed:
    """The program failed for reasons of its own, or could not be run to a finding."""

    reason: str
    details: str = field(default="", compare=False)


Outcome = Proved | Unproved | Clean | Failed
