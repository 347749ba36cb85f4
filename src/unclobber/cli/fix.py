"""``unclobber fix``: edits a script so that it runs clean, proves that by running, and shows or writes the
diff.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shlex
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import click

from ..model import Fix, UnclobberError, require_installed_torch
from ..model.text import plural
from ..report import FORMATS, options_for, text_of, to_json
from ..settings import ProjectSettings
from ._errors import UsageError
from ._looking import cache_of, fewer_with, looked_at
from ._options import PROGRAM_OPTIONS, format_of, repeated
from ._output import json_text, write_document
from ._progress import said
from ._target import target_of
from ._terminal import PROGRAM
from ._torch import require_torch

if TYPE_CHECKING:
    from ..repair import Rounds, Runner

_NOT_RUN = "nothing was run"
_NO_RUN = "Name files and folders: `unclobber fix --no-run src`."
IN_PLACE = "the script's folder is too large to be copied, so its runs wrote in the folder itself"


@click.command(
    context_settings=PROGRAM,
    epilog="""
    Exit code: 0 nothing to fix, or --write has written a proved fix; 1 there is something to fix that
    was not written; 2 wrong use, a script that fails for its own reasons, or a fault of unclobber
    itself; 130 interrupted, nothing was written. With --check: 1 there is a proved fix, 0 there is none.

    A fix is proved to the end when the edited script runs clean under watch(strict=True); when, at every
    backward call up to the one that failed and two beyond it, the loss and the gradient of every leaf equal
    those of the script as it is under guard; and when at its end it has printed and written the same and
    leaves the same modules, optimizers, tensors and random generators. Times that it
    prints, and numbers in which two runs of the script as it is differ, are left out and named. Where a run
    to the end takes longer than --to-end, or two runs differ in more than numbers, or it asks for input, the
    fix is proved up to the backward call that was compared last, and the reason is said. Where torch
    refuses the write itself, the proof names the meaning that the script was run with instead, such as "with
    the write not recorded".

    The script is run many times, each time from its start in a process of its own and in a copy of its
    folder (of up to 256 MiB; in a larger one it runs where it is, which is said). Files elsewhere that it
    writes are written each time. Generators are seeded before it starts. Each run reads what is piped in.
    What goes wrong only in processes that it starts is named, and not fixed.

    A result is kept in .unclobber_cache, and --write after it runs nothing again, as long as the project's
    files, all others that the script reads, the command, the environment and the versions are the same.
    That of a script that starts processes or opens connections is not kept.
    """,
)
@click.option(
    "--no-run",
    "unrun",
    is_flag=True,
    help="Run nothing: candidates for what `unclobber check` finds in PATH, none of them proved.",
)
@click.option("--write", is_flag=True, help="Write the best proved fix to the files.")
@click.option(
    "--take", type=click.IntRange(min=1), metavar="N", help="Show or write the N-th way that is listed."
)
@click.option("--no-cache", is_flag=True, help="Prove again what was proved before and has not changed.")
@click.option("--check", is_flag=True, help="Only say whether there is a proved fix: exit 1 if so.")
@click.option("--all", "fix_all", is_flag=True, help="Go on with the next finding until the script is clean.")
@click.option(
    "--diff", "only_diff", is_flag=True, help="Print only the diff, for `patch -p0` or `git apply -p0`."
)
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=120.0, metavar="S", help="Seconds for each run (120)."
)
@click.option(
    "--to-end",
    type=click.FloatRange(min=0),
    default=60.0,
    metavar="S",
    help="Seconds that a run to the end may take (60); a fault that comes later is not found.",
)
@format_of(
    ("text", "json"),
    " In JSON, a proof's `extra_seconds` and `extra_bytes` are measured: no two runs give the same.",
)
@PROGRAM_OPTIONS
def command(
    *,
    unrun: bool,
    write: bool,
    take: int | None,
    no_cache: bool,
    check: bool,
    fix_all: bool,
    only_diff: bool,
    timeout: float,
    to_end: float,
    format_: str,
    as_module: bool,
    words: tuple[str, ...],
) -> int:
    """Find an edit of a program that keeps what it computes, and prove it.

    Everything after the program's name goes to the program. With --no-run, files and folders are only read.
    """
    if unrun:
        if write or check:
            raise UsageError("--no-run proves nothing, and --write and --check are for proved fixes", _NO_RUN)
        if not words:
            raise UsageError("nothing to look at", _NO_RUN)
        return _without_a_run(words, only_diff=only_diff, format_=format_)
    target = target_of(words, as_module, "fix")
    script = target.file()
    if check and (write or take):
        name = "--write" if write else "--take"
        raise UsageError(f"{name} and --check exclude each other", "Use one of them.")
    require_installed_torch()
    from ..repair import KeptFix, Runner, fix

    module = words[0] if as_module else ""
    # --write, --take and --format are no part of it: they show or write the same result.
    options = (script, target.arguments, module, timeout, to_end, fix_all, check)
    elsewhere: dict[str, Any] = {}
    kept = KeptFix(cache_of(ProjectSettings.of(target.folder)), options)
    try:
        rounds = None if no_cache else kept.load()
        is_kept = rounds is not None
        if rounds is None:
            # The runner imports torch at the same time.
            with said() as progress, Runner(timeout, to_end) as runner:
                require_torch()
                rounds = fix(
                    script,
                    target.arguments,
                    runner=runner,
                    module=module,
                    fix_all=fix_all,
                    first_only=check,
                    progress=progress,
                )
                kept.keep(rounds, runner.reads)
                if rounds.starts_processes:
                    elsewhere = _in_processes(runner, (*["-m"] * as_module, *words))
    except KeyboardInterrupt:
        sys.stderr.write("unclobber: interrupted; nothing was written\n")
        return 130
    rounds = dataclasses.replace(rounds, elsewhere=_reason(elsewhere))
    if rounds.failure is not None:
        sys.stderr.write(rounds.failure.details)
        raise UnclobberError(f"{rounds.failure.reason}.")
    if take is not None:
        if take > len(rounds.ways):
            raise UsageError(f"there is no way {take}", f"`unclobber fix` lists {len(rounds.ways)} here.")
        rounds = rounds.taking(take)  # proved or not, because the user has chosen it
    # Before the files are written, because all of them quote the lines as they were.
    stories, ways = "", list[tuple[str, str]]()
    if format_ == "text" and not (only_diff or check):
        stories, ways = _stories(rounds), _ways(rounds, take)
    report, diff = rounds.report(("-m", *words) if as_module else words), rounds.diff
    document = _json(elsewhere or to_json(report), rounds, diff) if format_ == "json" else {}
    written = rounds.write() if write and (rounds.proved or take) else []
    if only_diff:
        write_document(sys.stdout, diff)
    elif format_ == "json":
        document["fix"]["written"] = written
        write_document(sys.stdout, json_text(document))
    else:
        _print(stories, rounds, diff, ways, written, check=check, is_kept=is_kept)
    if check:
        return int(bool(rounds.proved))
    fixed = bool(written) and (rounds.clean or not fix_all or bool(take))
    return 0 if fixed or (rounds.clean and not rounds.proved) else 1


def _without_a_run(paths: tuple[str, ...], *, only_diff: bool, format_: str) -> int:
    """Print what ``unclobber check`` finds with candidate edits, and all candidates as one diff.

    Returns:
        The exit code: 1 if there is anything to fix.
    """
    from ..repair import together, with_candidates

    report = with_candidates(looked_at(paths), every=True, ends=fewer_with)
    code = int(bool(report.findings))
    report = dataclasses.replace(report, command=("fix", "--no-run", *paths), exit_code=code)
    diff = together(report)
    if only_diff:
        write_document(sys.stdout, diff)
    elif format_ == "json":
        document = to_json(report)
        document["fix"] = {"diff": diff or None, "written": [], "reason": _NOT_RUN, "runs": 0, "proofs": []}
        write_document(sys.stdout, json_text(document))
    else:
        click.echo(FORMATS["text"](report, options_for(sys.stdout)))
        if diff:
            click.echo()
            _print_diff(diff)
            click.echo(f"not proved: {_NOT_RUN}; `unclobber fix SCRIPT.py` proves what a run comes to")
    return code


def _in_processes(runner: Runner, words: tuple[str, ...]) -> dict[str, Any]:
    """Return the document of a watched run if it finds anything in processes that the script starts."""
    copy, output = runner.copy, runner.file("in-processes")
    assert copy is not None  # the script has run
    command = [sys.executable, "-m", "unclobber", "run", "--format=json", f"--output={output}"]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):  # it may end without a report
        subprocess.run(
            [*command, *map(copy.there, words)],
            cwd=copy.there(os.path.realpath(os.getcwd())),
            env=runner.environment,
            timeout=runner.timeout,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        with open(output, encoding="utf-8") as file:
            text = file.read()
        for folder, its_copy in copy.pairs:
            text = text.replace(its_copy, folder)
        document: dict[str, Any] = json.loads(text)
        return document if document["findings"] else {}
    return {}


def _reason(elsewhere: dict[str, Any]) -> str:
    """Return why nothing is proved for the findings of a watched run, as a clause; empty without a run."""
    if not elsewhere:
        return ""
    where = (f"{of['code']} in process {' and '.join(of['processes'])}" for of in elsewhere["findings"])
    return (
        f"{', '.join(where)}: edits are proved for the script's own process alone, so let that call the "
        f"function once; "
        f"`{shlex.join(('unclobber', 'run', *elsewhere['command']))}` explains what is wrong"
    )


def _print(
    stories: str,
    rounds: Rounds,
    diff: str,
    ways: list[tuple[str, str]],
    written: list[str],
    *,
    check: bool,
    is_kept: bool,
) -> None:
    """Print the explanations, the chosen diff, the ways, and whether files were written."""
    if rounds.clean and not rounds.proved:
        click.echo("nothing to fix: the script runs clean")
        return
    if check:
        proved = len(rounds.proved)
        click.echo("there is a proved fix" if proved else f"no proved fix: {rounds.reason or ''}")
        return
    click.echo(stories, nl=False)
    _print_diff(diff)
    for text, other in ways:
        click.echo(text)
        _print_diff(other)
    if rounds.reason is not None and (rounds.proved or not written):  # else the user has decided
        click.echo(_sentence(f"not fixed: {rounds.reason}"))
    if rounds.others and not written:
        more = plural(rounds.others, "more finding")
        click.echo(_sentence(f"note: {more} in that run: `unclobber run` shows them, with edits to try"))
    if rounds.in_place:
        click.echo(_sentence(f"note: {IN_PLACE}"))
    if is_kept:
        click.echo(_sentence("note: found by an earlier `unclobber fix`; nothing that it depends on changed"))
    if not written and len(rounds.ways) > len(rounds.proved):
        intro, other = "another way" if rounds.proved else "your choice", repeated("--write", "--take", "N")
        click.echo(_sentence(f"{intro}: `{other}` writes way N, and shows it without --write"))
    if written:
        click.echo(f"written: {', '.join(os.path.relpath(path) for path in written)}")
    elif rounds.proved:
        click.echo(f"nothing written yet: `{repeated('--write')}` writes it")


def _ways(rounds: Rounds, take: int | None) -> list[tuple[str, str]]:
    """Return sentences with a diff: the chosen ways' proofs, whose diff is on top, then each other way."""
    on_disk = project = rounds.project.on_disk
    chosen: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    number = 0
    for outcome in rounds.explained:
        best = outcome.repairs[0] if outcome.repairs else None
        for way in (*outcome.repairs, *outcome.offered):
            number += 1
            title = ", ".join(filter(None, [way.title, way.places(project)]))
            # Without --take, the best way of each round is in the diff on top.
            is_chosen = number == take or (take is None and way is best)
            notes = way.notes if is_chosen or not way.proof else ()
            # A way that a user decides on has no sentence on a proof, even if it is the chosen one.
            if is_chosen and way.proof is not None:
                said = way.proof.sentence
            elif best is not None and way is best:
                said = f"way {number}, proved and ranked first: {title}"
            elif best is not None and way.proof is not None:
                said = f"way {number}, also proved: {title}: {way.difference_from(best)}"
            else:
                said = f"way {number}, not proved, yours to decide: {title}"
            lines = [_sentence(said), *(_sentence(f"note: {note}", indent="  ") for note in notes)]
            # `--take` shows the diff of a proved one; what is not proved is for the user to decide.
            diff = "" if is_chosen or way.proof else on_disk.diff(way.texts)
            (chosen if is_chosen else others).append(("\n".join(lines), diff))
        if best is not None:
            project = project.with_texts(best.texts)  # the next round's candidates edit these texts
    return chosen + others


def _sentence(text: str, *, indent: str = "") -> str:
    """Return `text` wrapped to the terminal's width."""
    return textwrap.fill(
        text,
        options_for(sys.stdout).width,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _stories(rounds: Rounds) -> str:
    """Return the explanations of the findings. Each names only the fix of the diff below it."""
    options = options_for(sys.stdout)
    explanations = []
    for outcome in rounds.explained:
        fixes = tuple(Fix(repair.title) for repair in outcome.repairs[:1])
        explanations.append(text_of(dataclasses.replace(outcome.finding, fixes=fixes), options))
    return "".join(f"{story}\n\n" for story in explanations)


def _print_diff(diff: str) -> None:
    """Print a diff, coloured on a terminal with colours."""
    if not options_for(sys.stdout).colour:
        click.echo(diff, nl=False)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    styles = {"-": "red", "+": "green", "@": "cyan"}
    for line in diff.splitlines():
        style = "bold" if line.startswith(("---", "+++")) else styles.get(line[:1], "")
        console.print(Text(line, style=style))


def _json(document: dict[str, Any], rounds: Rounds, diff: str) -> dict[str, Any]:
    """Return the JSON document of a fix: the report's, with the diff, the proofs and the ways."""
    ways = [
        {
            "number": number,
            "title": way.title,
            "diff": rounds.project.diff(way.texts),
            "changes_result": not way.applicable,
            "notes": list(way.notes),
            "proof": None if way.proof is None else way.proof.to_dict(),
        }
        for number, way in enumerate(rounds.ways, 1)
    ]
    document["fix"] = {
        "diff": diff or None,
        "written": [],
        "reason": rounds.reason,
        "runs": rounds.runs,
        "in_place": rounds.in_place,
        "proofs": [proof.to_dict() for outcome in rounds.proved if (proof := outcome.best.proof)],
        "ways": ways,
    }
    return document
