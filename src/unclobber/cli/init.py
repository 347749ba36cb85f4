"""``unclobber init``: writes what a project needs, where it isn't there."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from importlib.metadata import metadata

import click

from ..model import VERSION
from ..settings.pyproject import SETTINGS
from ._errors import UsageError
from ._output import OutputFile
from ._terminal import COMMAND

_SETTINGS = "pyproject.toml"
_HOOKS = ".pre-commit-config.yaml"
_WORKFLOW = os.path.join(".github", "workflows", "unclobber.yml")


@click.command(context_settings=COMMAND)
@click.option("--pre-commit", is_flag=True, help=f"Also add the hook unclobber-check to {_HOOKS}.")
@click.option("--github", is_flag=True, help=f"Also write {_WORKFLOW}, which checks each push.")
def command(*, pre_commit: bool, github: bool) -> int:
    """Add a table of settings to pyproject.toml in this folder, with each setting in a comment.

    What is there already is left as it is.
    """
    _write(_SETTINGS, _with_settings)
    if pre_commit:
        _write(_HOOKS, _with_hook)
    if github:
        _write(_WORKFLOW, _with_job)
    click.echo("next: `unclobber check .`, which runs nothing, or `unclobber run SCRIPT.py`")
    return 0


def _write(path: str, changed: Callable[[str], str]) -> None:
    """Write a file's changed text, and print what was done."""
    before = ""  # an empty file and none get the same text
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as stream:
                before = stream.read()
        text = changed(before)
        if text != before:
            # Checked, because a file that may not be written could still be replaced.
            if before and not os.access(path, os.W_OK):
                raise PermissionError(13, "permission denied")
            OutputFile(os.path.realpath(path)).write(text)
    except (OSError, UnicodeDecodeError) as error:
        reason = str(error.strerror).lower() if isinstance(error, OSError) else "it is no UTF-8"
        hint = "It must be a text file, or none, in a folder that you may write to."
        raise UsageError(f"can't add to {path}: {reason}", hint) from None
    said = "left as it is" if text == before else "changed" if before else "written"
    click.echo(f"{path}: {said}")


def _with_settings(before: str) -> str:
    """Return the text of pyproject.toml with a table of settings, each in a comment."""
    try:
        tool = tomllib.loads(before).get("tool", {})
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{_SETTINGS} is no valid TOML: {error}") from None
    if "unclobber" in tool:
        return before
    lines = [f"# {setting.about}\n# {key} = {setting.example}\n" for key, setting in SETTINGS.items()]
    return f"{before.rstrip()}\n\n[tool.unclobber]\n{''.join(lines)}".lstrip()


def _with_hook(before: str) -> str:
    """Return the text of pre-commit's settings with the hook, pinned to this version."""
    if "id: unclobber-check" in before:
        return before
    hook = f"  - repo: {_repository()}\n    rev: v{VERSION}\n    hooks:\n      - id: unclobber-check\n"
    start = before.rstrip() or "repos:"
    import yaml  # late, because no other option needs it

    text = f"{start}\n{hook}"
    # Appended as text, because a parser would drop the file's comments.
    try:
        (*_, last) = yaml.safe_load(text)["repos"]
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        last = None
    if not isinstance(last, dict) or last.get("rev") != f"v{VERSION}":
        raise UsageError(f"{_HOOKS} doesn't end in its list of repositories", f"Add to it:\n{hook}")
    return text


def _with_job(before: str) -> str:
    """Return the text of a workflow, or the one that is there."""
    action = _repository().removeprefix("https://github.com/")
    return before or (
        "name: unclobber\non: [push, pull_request]\n"
        "permissions: {contents: read, security-events: write}\n"
        "jobs:\n  check:\n    runs-on: ubuntu-latest\n    steps:\n"
        f"      - uses: actions/checkout@v4\n      - uses: {action}@v{VERSION}\n"
    )


def _repository() -> str:
    urls = metadata("unclobber").get_all("Project-URL") or []
    return next(str(url).removeprefix("Repository, ") for url in urls if url.startswith("Repository, "))
