"""Parsing of the command line and the only place that prints errors."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from inspect import cleandoc
from typing import Any, NamedTuple

import click

from ..model import VERSION, UnclobberError
from . import _meant
from ._errors import InternalError
from ._program import is_the_programs
from ._terminal import HELP

_COMPLETE = "_UNCLOBBER_COMPLETE"
"""Environment variable that a shell's completion sets; click writes its script and its answers."""


class Listed(NamedTuple):
    """A command's line in ``unclobber --help``."""

    about: str
    example: str


COMMANDS: dict[str, Listed] = {
    "run": Listed(
        "Run a script or module and explain overwritten saved tensors.", "unclobber run train.py --epochs 1"
    ),
    "fix": Listed(
        "Find an edit that keeps the gradients, prove it by running, and write it.",
        "unclobber fix --write train.py",
    ),
    "check": Listed(
        "Look for in-place hazards in sources, without running anything.",
        "unclobber check --since origin/main src",
    ),
    "explain": Listed(
        "Explain a code: a program that fails, why, and the repaired program.",
        "unclobber explain UC101 UC102",
    ),
    "rules": Listed(
        "Say what operations save for backward and what may be overwritten.", "unclobber rules exp F.softmax"
    ),
    "memory": Listed(
        "Say which line keeps how many bytes for backward, why, and what in-place buys.",
        "unclobber memory train.py",
    ),
    "vet": Listed(
        "Train a module in the ways in which people train, and explain what fails.",
        "unclobber vet model.py:make_model",
    ),
    "init": Listed(
        "Write settings, a pre-commit hook or a job of CI.", "unclobber init --pre-commit --github"
    ),
    "settings": Listed("Print the settings that hold, and where each comes from.", "unclobber settings"),
    "doctor": Listed("Print versions, the core, self-tests and what can't be seen here.", "unclobber doctor"),
    "build-native": Listed(
        "Compile what runs at each save and write, for less overhead.", "unclobber build-native"
    ),
}
"""Commands in the order of their use; ``<name>.py`` in this folder defines each as ``command``."""


class _Table(click.Group):
    """A group that imports the module of a command only when the user calls it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in COMMANDS and not ctx.resilient_parsing:
            # click itself knows the options of the group, and names any other.
            known = "" if args[0].startswith("-") else f"The commands are {', '.join(COMMANDS)}."
            if meant := _meant.sentence(args, COMMANDS) or known:
                ctx.fail(f"No such {'command' if known else 'option'} '{args[0]}'. {meant}")
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the imported command, with its example at the end of its help; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"unclobber.cli.{cmd_name.replace('-', '_')}").command
        # every file names its function `command`, which click would show in usage lines
        command.name = cmd_name
        # Appended once: click gets a command several times in one process.
        example = f"Example: {COMMANDS[cmd_name].example}"
        if example not in (command.help or ""):
            command.help = f"{cleandoc(command.help or '')}\n\n{example}"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with its line and its example."""
        # Not click's own listing, because that imports every command for its short help.
        with formatter.section("Commands"):
            room = formatter.width - max(map(len, COMMANDS)) - 4
            rows = [
                # "\b": click keeps these lines as they are.
                (name, f"\b\n{click.wrap_text(line.about, room)}\n$ {line.example}")
                for name, line in COMMANDS.items()
            ]
            formatter.write_dl(rows)


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the version and the core that runs, then exit; click's callback of ``--version``."""
    if not wanted or context.resilient_parsing:
        return
    from ..observe.native.core import choice

    file, why_not = choice()
    print(f"unclobber, version {VERSION}")
    print(f"core: native, {file}" if file else f"core: Python ({why_not})")
    context.exit()


@click.command(cls=_Table, no_args_is_help=True, context_settings={"help_option_names": HELP})
@click.option(
    "--version",
    "-V",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and which core runs, and exit.",
)
def group() -> None:
    """In-place operations under PyTorch autograd: explained, guarded and repaired."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in ``argv`` (``sys.argv[1:]`` if not given) and return the exit code.

    Raises:
        KeyboardInterrupt: A watched program was interrupted and has been reported; the interpreter
            then ends as it does for that program alone.
    """
    # Done here, because `group.main`, which would do it, is not called below.
    if (instruction := os.environ.get(_COMPLETE)) is not None:
        from click.shell_completion import shell_complete

        return shell_complete(group, {}, "unclobber", _COMPLETE, instruction)
    try:
        # Not `group.main`: it turns a KeyboardInterrupt, which here is the watched program's, into its own.
        with group.make_context("unclobber", _words(sys.argv[1:] if argv is None else argv)) as context:
            code: Any = group.invoke(context)
    except click.exceptions.Exit as done:  # --help and --version
        return done.exit_code
    except InternalError as error:
        return _confess(error)
    except UnclobberError as error:
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        if is_the_programs(interrupt):
            raise
        _complain("interrupted")
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.ClickException as error:
        _complain(_usage_text(error) if isinstance(error, click.UsageError) else error.format_message())
        return 2
    except BrokenPipeError:
        # The reader of stdout has left. The descriptor is replaced because the interpreter flushes stdout at
        # its exit and would print the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        return _confess(InternalError(error))
    return code if isinstance(code, int) else 0


def _words(argv: Sequence[str]) -> list[str]:
    if argv[:1] == ["help"]:
        return [*argv[1:2], "--help"]
    return ["--version"] if list(argv) == ["version"] else list(argv)


def _usage_text(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "unclobber"
    message = error.format_message()
    return f"{message if message.endswith(('.', '?')) else f'{message}.'} See `{path} --help`."


def _confess(error: InternalError) -> int:
    traceback.print_exception(error.__cause__)
    _complain(str(error))
    return error.exit_code


def _complain(text: str) -> None:
    print(f"unclobber: {text}", file=sys.stderr)
