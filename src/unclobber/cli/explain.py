"""``unclobber explain``: prints the page of a code, or the candidates for a pasted traceback."""

from __future__ import annotations

import sys

import click

from ..model import CODES
from ..model.pages import page
from ..report import options_for
from ..settings import codes
from . import _meant
from ._errors import UsageError
from ._options import a_file, choices
from ._output import write_text
from ._terminal import COMMAND

_WIDEST = 100  # widest line, in columns, because longer lines are harder to read


@click.command(context_settings=COMMAND)
@click.option(
    "--traceback",
    metavar="FILE",
    shell_complete=a_file,
    help="Name the lines that may have caused the pasted failure in FILE (`-`: standard input), from the "
    "sources in PATH alone: nothing is run.",
)
@click.option("--format", "format_", default="text", metavar="text|json", help="How to print candidates.")
@click.argument("given", nargs=-1, metavar="[CODE | PATH]...", shell_complete=choices(CODES))
def command(*, given: tuple[str, ...], traceback: str | None, format_: str) -> int:
    """Explain codes: for each a program that fails, what torch says, why, and the repaired program.

    CODE is such as UC101 or 101, or its name, such as saved-overwritten. Without it all codes are listed.
    With --traceback, PATH is a file or folder of the program that failed; the working directory by default.
    """
    if traceback is not None:
        from ._pasted import explain

        return explain(traceback, given, format_)
    if format_ != "text":
        raise UsageError("--format is for --traceback", f"Leave --format {format_} out.")
    known = [_known(code) for code in given]  # all of them, before a page is printed
    write_text(sys.stdout, "\n".join(_rendered(code) for code in known) or _listed())
    return 0


def _known(given: str) -> str:
    """Return the code for a code, its number or its name; raise `UsageError` for anything else."""
    by_name = {entry.name: code for code, entry in CODES.items()}
    code = by_name.get(given.lower(), given.upper())
    code = f"UC{code}" if code.isdecimal() else code
    if code not in CODES:
        hint = _meant.sentence([given], ()) or f"The codes are {', '.join(CODES)}."
        raise UsageError(codes.unknown(given), hint)
    return code


def _listed() -> str:  # the widest line has 80 columns
    longest = max(len(entry.name) for entry in CODES.values())
    return "".join(f"{code}  {entry.name:<{longest}}  {entry.gist}\n" for code, entry in CODES.items())


def _rendered(code: str) -> str:
    """Return a code's page as plain text, or styled by rich for a colour terminal."""
    shown = page(code)
    options = options_for(sys.stdout)
    width = min(options.width, _WIDEST)
    if not options.colour:
        return f"{shown.plain(width)}\n"
    from rich.console import Console
    from rich.markdown import Markdown

    # "ansi_dark" takes the terminal's own sixteen colours, which suit its background.
    console = Console(width=width, force_terminal=True)
    with console.capture() as captured:
        console.print(Markdown(shown.text, code_theme="ansi_dark", hyperlinks=False))
    return captured.get()
