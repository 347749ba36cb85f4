"""``unclobber settings``: prints the settings that hold, and where each comes from."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from ..settings import ProjectSettings, shown_path
from ..settings.pyproject import SETTINGS
from ._errors import UsageError
from ._options import a_file
from ._terminal import COMMAND


@click.command(context_settings=COMMAND)
@click.option("--schema", is_flag=True, help="Print the JSON schema of [tool.unclobber], for editors.")
@click.argument("folder", default=".", metavar="[FOLDER]", shell_complete=a_file)
def command(*, schema: bool, folder: str) -> int:
    """Print the settings that hold for the files of a folder, and where each comes from.

    The nearest pyproject.toml above the files that has a table [tool.unclobber] counts, and it alone. What is
    given on a command line precedes it.
    """
    if schema:
        click.echo(json.dumps(json_schema(), indent=2))
        return 0
    if not os.path.exists(folder):
        raise UsageError(f"there is no folder {folder}")
    # a file stands for its folder
    project = ProjectSettings.of(folder if os.path.isdir(folder) else os.path.dirname(folder))
    file = shown_path(project.file)
    # Whether the file has the key decides, because a key may have its default's value there.
    rows = [
        (key, _value(getattr(project, key.replace("-", "_"))), file if key in project.given else "default")
        for key in SETTINGS
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for (key, value, origin), setting in zip(rows, SETTINGS.values(), strict=True):
        click.echo(f"{key:{widths[0]}}  {value:{widths[1]}}  {origin}  ({setting.commands})")
    return 0


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of ``[tool.unclobber]``, for editors."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "[tool.unclobber]",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            key: {"description": setting.about, **setting.schema} for key, setting in SETTINGS.items()
        },
    }


def _value(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        value = dict(value)
    return json.dumps(value, ensure_ascii=False)
