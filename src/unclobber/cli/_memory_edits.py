"""Make the changes that save memory in the source: proved, shown as a diff, written where that is asked."""

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
    """What was proved so far."""

    texts: dict[str, str] = field(default_factory=dict)
    edits: list[SourceEdit] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """What to say of each change."""


def apply(
    report: MemoryReport, script: str, arguments: Sequence[str], *, checkpoint: bool, write: bool
) -> None:
    """Prove the edits for what was measured to save memory, print them, and write them.

    Args:
        report: With what was tried.
        script: The script that was run.
        arguments: Its command line.
        checkpoint: Also checkpoint the modules that lower the peak the most, which costs time.
        write: Whether to write the files.
    """
    from ..repair import apply as _apply
    from ..repair import given
    from ..repair.diff import unified
    from ..repair.project import Project, root_of
    from ..repair.proof import Runner

    project = Project(root_of(script))
    project.encoded(script)
    changes = [one for one in report.changes if one.edits and one.saved > 0 and one.sort != "checkpoint"]
    if checkpoint:
        again = [one for one in report.changes if one.edits and one.saved > 0 and one.sort == "checkpoint"]
        changes += sorted(again, key=lambda one: -one.saved)
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
    """Add a change to what is chosen, if one way to write it is proved together with the rest."""
    from ..repair import given

    why = "its place is no file of this project, or is edited already"
    for way in change.edits:
        together = [*chosen.edits, *way]
        texts = given.edited(project, _by_file(together))
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
    found: dict[str, list[Place]] = {}
    for one in edits:
        place = (one.line, one.column, one.end_line, one.end_column, one.text)
        found.setdefault(os.path.realpath(one.path), []).append(place)
    return found


def _line(change: Change, proof: Proof) -> str:
    how = "to the bit" if proof.exact else f"within {proof.largest_difference:.0e} of the largest element"
    return (
        f"proved: {change.title}: {size(change.saved)} off the peak; loss and gradients of "
        f"{plural(proof.leaves, 'leaf', 'leaves')} are equal {how}"
    )
