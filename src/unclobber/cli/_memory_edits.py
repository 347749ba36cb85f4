"""Source edits that save memory: proved, shown as a diff, and written on request."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ..model.text import plural, size
from ._options import repeated
from ._progress import said

if TYPE_CHECKING:
    from ..footprint import StepMemory


def apply(
    report: StepMemory, script: str, arguments: Sequence[str], *, checkpoint: bool, write: bool
) -> None:
    """Prove the edits of measured savings, print them, and write them if `write`.

    Args:
        checkpoint: Whether to checkpoint modules, too: largest saving first, because each costs time.
    """
    from ..repair import Project, Prover, Runner

    project = Project.of(script)
    # Read before the first run, because edits are made and proved for this content.
    project.encoded(script)
    useful = [change for change in report.changes if change.edits and change.saved > 0]
    changes = [change for change in useful if change.sort != "checkpoint"]
    if checkpoint:
        again = [change for change in useful if change.sort == "checkpoint"]
        changes += sorted(again, key=lambda change: -change.saved)
    texts: Mapping[str, str] = {}
    lines = []
    if changes:
        with said() as progress, Runner() as runner:
            progress("running the script as it is")
            prover = Prover(project, script, tuple(arguments), runner, report.step)
            for change in changes:
                progress(f"trying: {change.title}")
                proof = prover.take(change.edits)
                if isinstance(proof, str):
                    lines.append(f"not proved: {change.title}: {proof}")
                    continue
                how = "to the bit"
                if proof.largest_difference:
                    how = f"within {proof.largest_difference:.0e} of the largest element"
                lines.append(
                    f"proved: {change.title}: {size(change.saved)} off the peak; loss and gradients of "
                    f"{plural(proof.leaves, 'leaf', 'leaves')} are equal {how}"
                )
            texts = prover.texts
    if texts:
        click.echo(project.diff(texts), nl=False)
    else:
        click.echo(
            "nothing to write: no change that was proved to save memory is an edit of this project's files"
        )
    for line in lines:
        click.echo(line)
    if write and texts:
        click.echo(f"written: {', '.join(os.path.relpath(path) for path in project.write(texts))}")
    elif texts:
        click.echo(f"nothing written yet: `{repeated('--write')}` writes it")
    sys.stdout.flush()
