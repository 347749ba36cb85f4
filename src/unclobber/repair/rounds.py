"""Rounds of repair: a single one, or one after another until the script is clean."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..model import Finding, Fix
from ._search import repair
from .candidates import edits_of
from .diff import unified
from .outcome import Outcome, Proved, Repair, Unproved
from .project import Project, root_of
from .proof import Runner

MOST_ROUNDS = 20


@dataclass(frozen=True)
class Rounds:
    """The outcomes, round by round, and the project with all proved edits."""

    outcomes: tuple[Outcome, ...]
    project: Project
    runs: int = 0
    """Number of runs of the script."""
    in_place: bool = False
    """Whether it ran in its own folder, because that is too large to copy."""

    @property
    def last(self) -> Outcome:
        return self.outcomes[-1]

    @property
    def proved(self) -> tuple[Proved, ...]:
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, Proved))


def run(
    script: str,
    arguments: tuple[str, ...] = (),
    *,
    timeout: float = 120.0,
    seconds_to_end: float = 60.0,
    fix_all: bool = False,
    first_only: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    runner: Runner | None = None,
) -> Rounds:
    """Repair a script once, or with ``fix_all`` until it is clean or a round proves nothing.

    Nothing is written. Each round builds on the edits before it, but is compared with the program on disk
    under guard, so errors can't add up.

    Args:
        script: Its path, from the working directory.
        arguments: Its command line.
        timeout: Time limit of each run, in seconds.
        seconds_to_end: Time limit of a run that goes on to its end, in seconds.
        fix_all: Go on until the script is clean or nothing more is proved.
        first_only: Stop each round at its first proof.
        progress: Called with each step.
        runner: A driver process to use and leave open; its own time limits apply then.
    """
    project = Project(root_of(script))
    project.encoded(script)  # remember the script's content before the first run
    outcomes: list[Outcome] = []
    with contextlib.nullcontext(runner) if runner else Runner(timeout, seconds_to_end) as used:
        runs = used.runs
        while len(outcomes) < MOST_ROUNDS:
            outcome = repair(
                script,
                arguments,
                timeout=timeout,
                first_only=first_only,
                runner=used,
                project=project,
                progress=progress,
            )
            outcomes.append(outcome)
            if not isinstance(outcome, Proved):
                break
            project = project.with_texts(outcome.best.texts)
            if not fix_all:
                break
        in_place = used.copy is not None and not used.copy.pairs
        return Rounds(tuple(outcomes), project, used.runs - runs, in_place)


def with_fixes(outcome: Proved | Unproved, project: Project) -> Finding:
    """Return the finding with the repairs as its fixes, proved ones first."""
    repairs = (*(outcome.repairs if isinstance(outcome, Proved) else ()), *outcome.offered)
    fixes = tuple(_fix(repair, project) for repair in repairs)
    return replace(outcome.finding, fixes=fixes)


def _fix(repair: Repair, project: Project) -> Fix:
    """Return a repair as a fix."""
    title = ", then ".join(dict.fromkeys(repair.titles))
    if repair.notes:
        title = f"{title} ({'; '.join(repair.notes)})"
    if not repair.applicable:
        title = f"or, if that is what is meant, {title}: it changes what is computed"
    return Fix(
        title,
        diff=unified(project, repair.texts),
        edits=edits_of(project, repair.texts),
        verified=False if repair.proof is None else repair.proof.verified,
    )
