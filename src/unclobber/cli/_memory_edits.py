"""Source edits that save memory: proved, shown as a diff, and written on request."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from ..model.text import plural, size
from ._progress import said

if TYPE_CHECKING:
    from ..footprint import Change, MemoryReport, SourceEdit
    from ..repair.given import Place, Prover
    from ..repair.outcome import Proof
    from ..repair.project import Project


@dataclass
class _Chosen:
    """The edits proved so far, and a line about each change."""

    texts: dict[str, str] = field(default_factory=dict)
    edits: list[SourceEdit] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """A sentence for each change that was tried."""


def apply(
    report: MemoryReport, script: str, arguments: Sequence[str], *, checkpoint: bool, write: bool
) -> None:
    """Prove the edits of measured savings, print them, and write them if `write`.

    Args:
        report: The memory report, with its measured changes.
        script: The script that was run.
        arguments: Its command line.
        checkpoint: Whether to checkpoint modules, too: largest saving first, because each costs time.
        write: Whether to write the files.
    """
    from ..repair import apply as _apply
    from ..repair import given
    from ..repair.diff import unified
    from ..repair.project import Project, root_of
    from ..repair.proof import Runner

    project = Project(root_of(script))
    # Read before the first run, because edits are made and proved for this content.
    project.encoded(script)
    useful = [change for change in report.changes if change.edits and change.saved > 0]
    changes = [change for change in useful if change.sort != "checkpoint"]
    if checkpoint:
        again = [change for change in useful if change.sort == "checkpoint"]
        changes += sorted(again, key=lambda change: -change.saved)
    chosen = _Chosen()
    if changes:
        with said() as progress, Runner() as runner:
            progress("running the script as it is")
            prover = given.Prover(script, tuple(arguments), runner, report.step)
            for change in changes:
                progress(f"trying: {change.title}")
                _take(change, chosen, project, prover)
    if not chosen.edits:
        click.echo(
            "nothing to write: no change that was proved to save memory is an edit of this project's files"
        )
        for line in chosen.lines:
            click.echo(line)
        return
    click.echo(unified(project, chosen.texts), nl=False)
    for line in chosen.lines:
        click.echo(line)
    if write:
        written = _apply.write(project, chosen.texts, project.originals)
        click.echo(f"written: {', '.join(os.path.relpath(path) for path in written)}")
    else:
        click.echo("nothing written yet: `unclobber memory --apply --write` writes it")
    sys.stdout.flush()


def _take(change: Change, chosen: _Chosen, project: Project, prover: Prover) -> None:
    """Add a change to `chosen` if one of its alternative edits is proved together with those chosen
    before.
    """
    from ..repair import given

    why = "its place is no file of this project, or is edited already"
    for way in change.edits:
        together = [*chosen.edits, *way]
        # Proved together and not by itself, because two edits can be right alone and wrong in one file.
        texts = given.edited(project, _by_file(together))
        # `edited` refuses a file outside of the project, and a place that overlaps an earlier edit.
        if texts is None:
            continue
        proof = prover.prove(texts)
        if not isinstance(proof, str):
            chosen.texts, chosen.edits = texts, together
            chosen.lines.append(_line(change, proof))
            return
        why = proof
    chosen.lines.append(f"not proved: {change.title}: {why}")


def _by_file(edits: Sequence[SourceEdit]) -> dict[str, list[Place]]:
    by_file: dict[str, list[Place]] = {}
    for edit in edits:
        place = (edit.line, edit.column, edit.end_line, edit.end_column, edit.text)
        by_file.setdefault(os.path.realpath(edit.path), []).append(place)
    return by_file


def _line(change: Change, proof: Proof) -> str:
    how = "to the bit" if proof.exact else f"within {proof.largest_difference:.0e} of the largest element"
    return (
        f"proved: {change.title}: {size(change.saved)} off the peak; loss and gradients of "
        f"{plural(proof.leaves, 'leaf', 'leaves')} are equal {how}"
    )
