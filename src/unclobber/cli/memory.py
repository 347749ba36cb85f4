"""``unclobber memory``: runs a program up to a backward and says where its memory goes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from ..model.text import plural, size
from ..report import options_for
from ._delivery import Delivery
from ._errors import UsageError
from ._options import OUTPUT_OPTION, PROGRAM_OPTIONS, format_of, repeated
from ._output import OutputFile
from ._program import die_interrupted, run
from ._progress import program_progress, said
from ._target import Script, Target, target_of
from ._terminal import PROGRAM
from ._torch import require_torch

if TYPE_CHECKING:
    from ..footprint import StepMemory


@click.command(
    context_settings=PROGRAM,
    epilog="""
    The program is stopped at the end of the recorded backward. Under --fake it must make its model and its
    data itself, and may not look at values (`.item()`, `if tensor > 0`, NumPy).

    Exit code: 0, 2 for wrong use or a fault of unclobber itself; a program that fails before the recorded
    backward ends keeps its own traceback and its own code.
    """,
)
@click.option("--step", type=click.IntRange(1), default=1, metavar="N", help="Stop after backward N.")
@click.option("--fake", is_flag=True, help="Compute shapes only: plan a model larger than this machine.")
@click.option(
    "--try",
    "try_",
    is_flag=True,
    help="Run again with each change that could save memory; compare gradients, peak and time.",
)
@click.option(
    "--apply", "apply_", is_flag=True, help="Show what is proved to save memory as edits of the source."
)
@click.option("--checkpoint", is_flag=True, help="With --apply: also what computes modules again.")
@click.option("--write", is_flag=True, help="With --apply: write the files.")
@format_of(("text", "json", "html"))
@OUTPUT_OPTION
@PROGRAM_OPTIONS
def command(
    *,
    step: int,
    fake: bool,
    try_: bool,
    apply_: bool,
    checkpoint: bool,
    write: bool,
    format_: str,
    output: OutputFile | None,
    as_module: bool,
    words: tuple[str, ...],
) -> int:
    """Show which line and module keeps how many bytes for backward, why, and what would save some.

    Everything after the program's name goes to the program.
    """
    if fake and (try_ or apply_):
        raise UsageError("--try compares gradients, and fake tensors have none", "Leave one of the two out.")
    if (checkpoint or write) and not apply_:
        raise UsageError("--checkpoint and --write go with --apply", "Add --apply.")
    if apply_ and as_module:
        raise UsageError("--apply edits a script, and -m names none", "Give the path of the script.")
    target = target_of(words, as_module, "memory")
    # Before torch is imported, because a wrong path should be named at once.
    target.prepare()
    require_torch()
    from ..footprint import record_program

    shown = ("-m", *words) if as_module else words
    program = _Program(target)
    with program_progress() as show:
        report = record_program(
            program.run,
            command=shown,
            step=step,
            fake=fake,
            try_changes=try_ or apply_,
            progress=lambda count: show(f"{count:,} operations recorded" if count else ""),
        )
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()  # what the program printed comes first

    def rendered(stream: TextIO | None) -> str:
        # A wider table is no easier to read, and a file has no width.
        return f"{report.shown(format_, 80 if stream is None else min(options_for(stream).width, 120))}\n"

    Delivery(format_, output).send(rendered, exit_code=program.exit_code)
    if apply_ and isinstance(target, Script) and not program.exit_code:
        _apply(report, target.path, target.arguments, checkpoint=checkpoint, write=write)
    if program.interrupted:
        die_interrupted()
    return program.exit_code


@dataclass
class _Program:
    """The program, run once or more; remembers how its first run ended."""

    target: Target
    exit_code: int = 0
    interrupted: bool = False
    runs: int = 0

    def run(self) -> str | None:
        """Run the program. Return the error that ended it, as one line, or None."""
        failure: list[BaseException] = []

        def note(error: BaseException) -> bool:
            failure.append(error)
            return False

        with _silence() if self.runs else contextlib.nullcontext():
            ending = run(self._until_enough, note, story_follows=lambda: False)
        self.runs += 1
        if self.runs == 1:
            self.exit_code, self.interrupted = ending.exit_code, ending.interrupted
        if not failure:
            return "interrupted" if ending.interrupted else None
        lines = str(failure[0]).strip().splitlines()
        return f"{type(failure[0]).__name__}: {lines[0] if lines else ''}"

    def _until_enough(self) -> None:
        from ..footprint import EnoughError

        with contextlib.suppress(EnoughError):
            self.target.run()


@contextlib.contextmanager
def _silence() -> Iterator[None]:  # a second run repeats the first one's output, and may fail from a change
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            yield


def _apply(
    report: StepMemory, script: str, arguments: tuple[str, ...], *, checkpoint: bool, write: bool
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
            prover = Prover(project, script, arguments, runner, report.step)
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
