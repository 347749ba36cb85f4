"""Edits from outside this room, proved as a fixer's are: by the gradients of a run with them.

A correct program is compared with one that is meant to compute the same. There is no finding, and the
reference is the script as written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from ..model import Interpretation, SpanEdit
from ._job import CommandLine
from ._syntax import Source
from ._text import Splice
from ._trial import Trial
from .outcome import Proof
from .project import Project
from .proof import Runner


def edited(project: Project, edits: Iterable[SpanEdit]) -> dict[str, str] | None:
    """Return whole new texts of files, by real paths; None if one isn't the project's, or edits overlap."""
    by_path: dict[str, set[SpanEdit]] = {}
    for edit in edits:
        by_path.setdefault(os.path.realpath(edit.path), set()).add(edit)
    texts = {}
    for path, places in by_path.items():
        source = project.source(path)
        if source is None:
            return None
        try:
            texts[path] = source.edited(*(_change(edit, source) for edit in places))
        except ValueError:
            return None
    return texts


def _change(edit: SpanEdit, source: Source) -> Splice:
    end = min(source.at(edit.end_line, edit.end_column), len(source.text))  # the last line may have no end
    return Splice(source.at(edit.line, edit.column), end, edit.text)


class Prover:
    """Takes edits as long as the script as written has the same gradients.

    Loss and gradients are compared until one backward call, not at later ones, because an optimizer amplifies
    rounding differences.
    """

    def __init__(
        self, project: Project, script: str, arguments: tuple[str, ...], runner: Runner, until: int
    ) -> None:
        """Run the script as written."""
        self.texts: Mapping[str, str] = {}  # the new texts of the files, with all edits that were taken
        self._project = project
        self._edits: Sequence[SpanEdit] = ()
        self._trial = Trial(CommandLine(script, arguments), runner, until, 0, "what is compared is one step")
        self._reference = self._trial.reference(frozenset({Interpretation.AS_WRITTEN}))

    def take(self, ways: Iterable[Sequence[SpanEdit]]) -> Proof | str:
        """Take the first of several ways to make a change that is proved together with the edits before.

        Together, because two edits can be right alone and wrong in one file. The reason why there is no proof
        is a clause.
        """
        why = "its place is no file of this project, or is edited already"
        for way in ways:
            together = (*self._edits, *way)
            texts = edited(self._project, together)
            if texts is None:
                continue
            proof = self._proof(texts)
            if not isinstance(proof, str):
                self.texts, self._edits = texts, together
                return proof
            why = proof
        return why

    def _proof(self, texts: Mapping[str, str]) -> Proof | str:
        """Run the script with new texts; return the proof, else the reason why there is none."""
        reference = self._reference
        if reference.ran.backwards < self._trial.until:
            return f"the script as it is could not be run for comparison ({reference.ran.problem})"
        ran = self._trial.changed(texts, reference)
        if ran.finding is not None or not ran.ended.well:
            return f"with it the script fails ({ran.problem})"
        return self._trial.proof(ran, reference)
