"""Options shared by the commands that report findings: format, destination, selection, baseline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ..report import FORMATS
from ._completion import a_file, choices

_OPTIONS = (
    click.option(
        "--format",
        "format_",
        default="text",
        metavar="|".join(FORMATS),
        shell_complete=choices(FORMATS),
        help="How to report; text is the default.",
    ),
    click.option("--output", metavar="FILE", shell_complete=a_file, help="Write the report to FILE."),
    click.option(
        "--select",
        metavar="CODES",
        multiple=True,
        help="Tell only these codes, or those that begin so: `UC101,UC2`.",
    ),
    click.option("--ignore", metavar="CODES", multiple=True, help="Don't tell these codes."),
    click.option(
        "--baseline",
        metavar="FILE",
        shell_complete=a_file,
        help="Don't fail for the findings that FILE knows.",
    ),
    click.option(
        "--write-baseline",
        metavar="FILE",
        shell_complete=a_file,
        help="Write what is found to FILE, and don't fail for it.",
    ),
)


def reporting(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the shared options to a command, in the order of `_OPTIONS`."""
    # Reversed because decorators apply from the innermost outwards, and click lists options in that order.
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
