"""Options shared by the commands that report findings: format, destination, selection, baseline."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from ..report import FORMATS
from ..settings import Baseline, codes, shown_path
from ._errors import UsageError
from ._output import OutputFile

Offer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def choices(words: Iterable[str]) -> Offer:
    def offer(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in words if word.startswith(typed)]

    return offer


def a_file(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    return [CompletionItem(typed, type="file")]  # the shell itself finds the files


def _writable(context: click.Context, parameter: click.Parameter, given: str | None) -> OutputFile | None:
    return None if given is None else OutputFile.at(given, parameter.opts[0])


def _known(context: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    if given is None:
        return None
    # Read now for its errors alone: a wrong file must stop the run before the program starts.
    Baseline.read(given)
    return os.path.realpath(given)  # because the program may change its directory


def _codes(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> tuple[str, ...]:
    each = (code for text in given for code in text.split(",") if code.strip())  # of such as `UC1,UC203`
    return codes.checked(each, parameter.opts[0])


OUTPUT_OPTION = click.option(
    "--output", metavar="FILE", shell_complete=a_file, callback=_writable, help="Write the report to FILE."
)


def format_of(formats: Collection[str], more: str = "") -> Callable[..., Any]:
    """Return the option ``--format`` of a command; any other format is a `UsageError`."""

    def checked(context: click.Context, parameter: click.Parameter, given: str) -> str:
        if given not in formats:
            hint = f"The formats are {', '.join(formats)}."
            raise UsageError(f"{context.info_name} has no report format {given!r}", hint)
        return given

    return click.option(
        "--format",
        "format_",
        default="text",
        metavar="|".join(formats),
        shell_complete=choices(formats),
        callback=checked,
        help=f"How to report; text is the default.{more}",
    )


def cores() -> int:
    # Not `cpu_count` where it can be helped: a container may have fewer cores than its machine.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


JOBS_OPTION = click.option(
    "--jobs",
    type=click.IntRange(min=0),
    default=0,
    callback=lambda _, __, given: given or cores(),
    help="Processes; as many as there are cores by default.",
)


def _each_of(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decorator that gives a command several options, which its help lists in this order."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        # Reversed because decorators apply from the innermost outwards.
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


REPORT_OPTIONS = _each_of(
    format_of(FORMATS),
    OUTPUT_OPTION,
    click.option(
        "--select",
        metavar="CODES",
        multiple=True,
        callback=_codes,
        help="Tell only these codes, or those that begin so: `UC101,UC2`.",
    ),
    click.option("--ignore", metavar="CODES", multiple=True, callback=_codes, help="Don't tell these codes."),
    click.option(
        "--baseline",
        metavar="FILE",
        shell_complete=a_file,
        callback=_known,
        help="Don't fail for the findings that FILE knows.",
    ),
    click.option(
        "--write-baseline",
        "written",
        metavar="FILE",
        shell_complete=a_file,
        callback=_writable,
        help="Write what is found to FILE, and don't fail for it.",
    ),
)
PROGRAM_OPTIONS = _each_of(
    click.option("-m", "as_module", is_flag=True, help="Run a module, as `python -m` does."),
    click.argument(
        "words",
        nargs=-1,
        metavar="(SCRIPT.py | -m MODULE) [ARGS]...",
        type=click.UNPROCESSED,
        shell_complete=a_file,
    ),
)


def repeated(*more: str) -> str:
    """Return the running command with further options, as one line that can be pasted into a shell."""
    context = click.get_current_context()
    words = ["unclobber", context.info_name or "", *more]
    for parameter in (option for option in context.command.params if option.opts[0] not in more):
        value = context.params[parameter.name or ""]
        if isinstance(parameter, click.Argument):
            words += value
        elif context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
            shown = shown_path(value.path) if isinstance(value, OutputFile) else str(value)
            words += parameter.opts[:1] if value is True else (parameter.opts[0], shown)
    return shlex.join(words)
