"""Edits from outside this room, proved as a fixer's are: by the gradients of a run with them.

A correct program is compared with one that is meant to compute the same. There is no finding, and the
reference is the script as written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ._candidate import AS_WRITTEN
from ._job import Against, Program
from ._trial import Trial
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
        self._trial = Trial(Program(script, arguments), runner, until)
        self._reference = self._trial.reference(frozenset({AS_WRITTEN}))

    def prove(self, texts: Mapping[str, str]) -> Proof | str:
        """Run the script with new texts of its files.

        Returns:
            The proof; else the reason why there is none, as a clause.
        """
        reference = self._reference
        if reference.ran.backwards < self._trial.until:
            return f"the script as it is could not be run for comparison ({reference.ran.problem})"
        ran = self._trial.changed(texts, reference, Against(reference.file))
        if ran.finding is not None or not ran.ended.well:
            return f"with it the script fails ({ran.problem})"
        return self._trial.proof(ran, reference)
