"""Edits from outside this room, proved as a fixer's are: by the gradients of a run with them.

A correct program is compared with one that is meant to compute the same. There is no finding, and the
reference is the script as written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ._candidate import AS_WRITTEN
from ._job import Job
from .outcome import Proof
from .project import Project
from .proof import Runner

Place = tuple[int, int, int, int, str]
"""First line, first column, last line, the column after the last character (1-based), and the new text."""


def edited(project: Project, edits: Mapping[str, Sequence[Place]]) -> dict[str, str] | None:
    """Return whole new texts of the files, by their real paths.

    Args:
        project: Decides which files may be edited.
        edits: By file; ranges may not overlap.
    Returns:
        None if a file isn't the project's, or two edits overlap.
    """
    texts = {}
    for path, places in edits.items():
        text = project.text(path)
        if text is None:
            return None
        new = _with(text, places)
        if new is None:
            return None
        texts[path] = new
    return texts


def _with(text: str, places: Sequence[Place]) -> str | None:
    """Return the text with the ranges replaced, last one first; None if two overlap."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    last = len(text) + 1
    for first, column, end_line, end_column, new in sorted(set(places), reverse=True):
        begin = starts[first - 1] + column - 1
        end = min(starts[min(end_line, len(starts)) - 1] + end_column - 1, len(text))
        if end > last:
            return None
        text = f"{text[:begin]}{new}{text[end:]}"
        last = begin
    return text


class Prover:
    """Comparison of edits with the script as written.

    Args:
        script: Its path, from the working directory.
        arguments: Its command line.
        runner: The driver process.
        until: The last backward call at which loss and gradients are compared. Later ones are not, because an
            optimizer amplifies rounding differences.
    """

    def __init__(self, script: str, arguments: tuple[str, ...], runner: Runner, until: int = 1) -> None:
        self._script = script
        self._arguments = arguments
        self._runner = runner
        self._until = until
        self._file = runner.file("reference-of-edits")
        self._reference = runner.run(self._job({}, "guard", record_to=self._file))

    def prove(self, texts: Mapping[str, str]) -> Proof | str:
        """Run the script with new texts of its files.

        Returns:
            The proof; else the reason why there is none, as a clause.
        """
        reference = self._reference
        if reference.backwards < self._until:
            why = reference.error or reference.exit_kind
            return f"the script as it is could not be run for comparison ({why})"
        ran = self._runner.run(self._job(texts, "watch", compare_with=self._file))
        if ran.finding is not None or ran.exit_kind not in ("finished", "stopped"):
            return f"with it the script fails ({(ran.error or ran.exit_kind).partition(chr(10))[0]})"
        comparison = ran.comparison
        if comparison is None or not comparison.same or not comparison.gradients:
            return (comparison and comparison.mismatch) or "there are no gradients to compare"
        return Proof(
            interpretation=AS_WRITTEN,
            backward=comparison.compared,
            leaves=comparison.leaves,
            largest_difference=comparison.largest_difference,
            seconds=ran.seconds - reference.seconds,
            cpu_seconds=ran.cpu_seconds - reference.cpu_seconds,
            extra_bytes=ran.peak_bytes - reference.peak_bytes,
            to_end=False,
            why_not_to_end="what is compared is one step",
        )

    def _job(self, texts: Mapping[str, str], policy: str, **more: str) -> Job:
        """Return a job that compares up to the last backward call."""
        return Job(
            self._script,
            self._arguments,
            overlay=dict(texts),
            policy=policy,
            stop_after=self._until,
            compare_until=self._until,
            **more,  # type: ignore[arg-type]
        )
