"""The reference of the command line, from the parser itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from unclobber.cli._main import group


def reference() -> str:
    """Return a section for each command, as Markdown: its usage, description and options."""
    context = click.Context(group, info_name="unclobber", **group.context_settings)
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return "\n\n".join(
        part for name, command in commands.items() if command for part in _section(name, command, context)
    )


def _section(name: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    yield f"## unclobber {name}"
    yield f"```text\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```"
    yield _prose(command.help)
    rows = [record for option in command.params if (record := option.get_help_record(context))]
    # An argument has a row without words: the usage line names it, and the description explains it.
    rows = [(names, words) for names, words in rows if words]
    if rows:
        yield "\n".join(["| option | |", "|---|---|", *(_row(*row) for row in rows)])
    if command.epilog:
        yield _prose(command.epilog)


def _row(names: str, words: str) -> str:
    # A pipe ends a cell, in code, too.
    return "| `{}` | {} |".format(*(cell.replace("|", r"\|") for cell in (names, words)))


def _prose(text: str | None) -> str:
    """Return the paragraphs of a help text, each on one line, without click's marks for a terminal."""
    paragraphs = inspect.cleandoc(text or "").replace("\b\n", "").split("\n\n")
    return "\n\n".join(re.sub(r"\s*\n\s*", " ", paragraph.strip()) for paragraph in paragraphs)
