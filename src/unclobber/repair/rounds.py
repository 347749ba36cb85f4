"""Rounds of repair: a single one, or one after another until the script is clean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..model import Fix, Report
from ._job import CommandLine
from ._search import Search
from .outcome import Clean, Failed, Outcome, Proved, Repair, Unproved
from .project import Project
from .proof import Runner

MOST_ROUNDS = 20


@dataclass(frozen=True)
class Rounds:
    """The outcomes, round by round, and the project with all proved edits."""

    outcomes: tuple[Outcome, ...]
    project: Project
    runs: int = 0  # number of runs of the script
    in_place: bool = False  # whether it ran in its own folder, because that is too large to copy
    elsewhere: str = ""  # what was found in processes that the script starts, as a clause

    @property
    def last(self) -> Outcome:
        return self.outcomes[-1]

    @property
    def proved(self) -> tuple[Proved, ...]:
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, Proved))

    @property
    def explained(self) -> tuple[Proved | Unproved, ...]:
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, (Proved, Unproved)))

    @property
    def starts_processes(self) -> bool:
        return isinstance(self.last, Clean) and self.last.children

    @property
    def clean(self) -> bool:
        return isinstance(self.last, Clean) and not self.elsewhere

    @property
    def reason(self) -> str | None:
        """Why the last round proved nothing, without a full stop; None if it did or had nothing to prove."""
        return self.elsewhere or None if isinstance(self.last, (Proved, Clean)) else self.last.reason

    @property
    def others(self) -> int:  # further findings of a run in which nothing was proved
        return self.last.others if isinstance(self.last, Unproved) else 0

    @property
    def failure(self) -> Failed | None:
        return self.last if isinstance(self.last, Failed) and not self.proved else None

    @property
    def diff(self) -> str:
        return self.project.diff(self.project.overlay)

    @property
    def ways(self) -> tuple[Repair, ...]:
        """Every edit that the user may take, round by round: the best one, others that are proved, and those
        that are the user's to decide. The edits of a later round hold those of the rounds before it."""
        return tuple(way for outcome in self.explained for way in (*outcome.repairs, *outcome.offered))

    def taking(self, number: int) -> Rounds:
        return replace(self, project=self.project.on_disk.with_texts(self.ways[number - 1].texts))  # 1-based

    def write(self) -> list[str]:
        return self.project.write(self.project.overlay)

    def report(self, command: tuple[str, ...]) -> Report:
        disk, rows = self.project.on_disk, [(o.finding, (*o.repairs, *o.offered)) for o in self.explained]
        findings = tuple(replace(of, fixes=tuple(_fix(each, disk) for each in some)) for of, some in rows)
        if not findings:
            return Report("clean", command=command)
        refused = any(finding.torch_message for finding in findings)
        return Report("refused" if refused else "silent", findings, command=command, exit_code=1)


def fix(
    script: str,
    arguments: tuple[str, ...] = (),
    *,
    runner: Runner,
    module: str = "",
    fix_all: bool = False,
    first_only: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    root: str = "",
) -> Rounds:
    """Repair a program once, or with ``fix_all`` until it is clean or a round proves nothing.

    Nothing is written. Each round builds on the edits before it, but is compared with the program on disk
    under guard, so errors can't add up.

    A round may take ten times the runner's limit for one run. With ``module``, the program is run by this
    name as with ``python -m``. Edits are for files below ``root``, or below that of the script's project.
    """
    project = Project.of(script, root)
    project.encoded(script)  # remember the script's content before the first run
    outcomes: list[Outcome] = []
    runs, runner.reads = runner.runs, set()
    program = CommandLine(script, arguments, module, root)
    solved, known = 0, frozenset[str]()
    for _ in range(MOST_ROUNDS if fix_all else 1):
        outcome = Search(program, runner, first_only, progress, solved, known).outcome(project)
        outcomes.append(outcome)
        if not isinstance(outcome, Proved):
            break
        project = project.with_texts(outcome.best.texts)
        solved, known = solved + len(outcome.best.titles), known | outcome.best.interpretations
    return Rounds(tuple(outcomes), project, runner.runs - runs, in_place=not runner.copy.pairs)


def _fix(repair: Repair, project: Project) -> Fix:
    """Return a repair as a fix."""
    title = f"{repair.title} ({'; '.join(repair.notes)})" if repair.notes else repair.title
    if not repair.applicable:
        title = f"or, if that is what is meant, {title}: it changes what is computed"
    return Fix(
        title,
        diff=project.diff(repair.texts),
        edits=project.edits(repair.texts),
        verified=False if repair.proof is None else repair.proof.verified,
    )
