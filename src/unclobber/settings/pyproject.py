"""``[tool.unclobber]`` of the nearest pyproject.toml."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..model import CODES
from ._project import ProjectSettings
from .codes import checked
from .errors import SettingsError


def settings_for(folder: str) -> ProjectSettings:
    """Return the settings of the project that a folder belongs to.

    As in ruff, only the first pyproject.toml upward from ``folder`` with a table ``[tool.unclobber]`` counts.
    Without one, the defaults apply.

    Raises:
        SettingsError: The file has a wrong key, a value of a wrong type or an unknown code, or it is no TOML.
    """
    for path in _upward(os.path.abspath(folder)):
        try:
            status = os.stat(path)
        except OSError:
            continue
        settings = _read(path, status.st_mtime_ns, status.st_size)
        if settings is not None:
            return settings
    return ProjectSettings()


@lru_cache(maxsize=64)
def _upward(folder: str) -> tuple[str, ...]:  # cached, because each context needs them when it is entered
    here = Path(folder)
    return tuple(str(parent / "pyproject.toml") for parent in (here, *here.parents))


@lru_cache(maxsize=64)
def _read(path: str, modified: int, size: int) -> ProjectSettings | None:
    """Return the settings in a file; None if it has no table for unclobber.

    Cached by time and size, so that a changed file is read again.
    """
    try:
        with open(path, "rb") as stream:
            text = stream.read()
    except OSError as error:
        raise SettingsError(f"can't read {path}: {(error.strerror or str(error)).lower()}.") from None
    if b"unclobber" not in text:
        return None  # other mistakes in a file that doesn't mention unclobber are not its business
    import tomllib  # late, so that a run without settings does not load it

    try:
        document = tomllib.loads(text.decode("utf-8"))
    except ValueError as error:  # covers errors of both TOML and UTF-8
        raise SettingsError(f"{path} is no valid TOML: {error}.") from None
    tool = document.get("tool")
    table = tool.get("unclobber") if isinstance(tool, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise SettingsError(f"tool.unclobber in {path} is {table!r}: it is a table, `[tool.unclobber]`.")
    return _settings(table, path)


def _settings(table: dict[str, Any], path: str) -> ProjectSettings:
    """Check and convert the values of the table."""
    for key in table:
        if key not in SETTINGS:
            close = get_close_matches(key.lower().replace("_", "-"), SETTINGS, 1)
            meant = f": did you mean `{close[0]}`?" if close else "."
            raise SettingsError(
                f"there is no key `{key}` in [tool.unclobber] of {path}{meant} "
                f"The keys are {', '.join(SETTINGS)}."
            )
    values = {
        key.replace("-", "_"): SETTINGS[key].read(value, f"`{key}` in [tool.unclobber] of {path}")
        for key, value in table.items()
    }
    # The file's folder, because globs start there even if the run starts in a folder below.
    folder = os.path.dirname(path)
    # A command may run in any folder.
    values |= {key: os.path.join(folder, values[key]) for key in ("baseline", "cache_dir") if key in values}
    return ProjectSettings(**values, folder=folder, given=tuple(table))


Reader = Callable[[Any, str], Any]  # checks and converts a value; its second argument says where that stands


def _reader(
    is_right: Callable[[Any], bool], what: str, convert: Callable[[Any], Any] = lambda v: v
) -> Reader:
    """Return the reader of values that `is_right` accepts and `what` describes, for the message."""

    def read(value: Any, where: str) -> Any:
        if not is_right(value):
            raise SettingsError(f"{where} is {_toml(value)}: it is {what}.")
        return convert(value)

    return read


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


_READ_GLOBS = _reader(_are_texts, 'a list of globs, such as ["tests/*"]', tuple)
_READ_TEXTS = _reader(_are_texts, 'a list of codes or of their beginnings, such as ["UC102", "UC2"]', tuple)
_READ_FILE = _reader(lambda v: isinstance(v, str) and v != "", "a path, from the folder of pyproject.toml on")
_READ_CONFIDENCE = _reader(lambda v: v in ("high", "medium"), '"high" or "medium"')
_READ_SWITCH = _reader(lambda v: isinstance(v, bool), "true or false")
# `true` is an int, and means all of them; NaN fails both comparisons.
_READ_SHARE = _reader(
    lambda v: isinstance(v, int | float) and 0 <= v <= 1, "a number from 0 to 1, or true for 1", float
)
_READ_TABLE = _reader(
    lambda v: isinstance(v, dict), 'a table of globs with lists of codes, such as {"tests/*" = ["UC102"]}'
)


def _codes(value: Any, where: str) -> tuple[str, ...]:
    return checked(_READ_TEXTS(value, where), where)


def _per_file(value: Any, where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    by_glob = _READ_TABLE(value, where).items()
    return tuple((glob, _codes(codes, f'"{glob}" of {where}')) for glob, codes in by_glob)


def _toml(value: Any) -> str:
    return "a table" if isinstance(value, dict) else json.dumps(value, ensure_ascii=False, default=str)


class Setting(NamedTuple):
    """A key of the table."""

    read: Reader
    schema: dict[str, Any]
    example: str  # a value as TOML
    about: str  # the effect of the key, as one sentence
    commands: str  # the commands that read it


_CODES: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "string",
        "anyOf": [
            {"enum": sorted({code[:length] for code in CODES for length in (3, 5)})},
            {"pattern": "^[Uu][Cc][0-9]*$"},
        ],
    },
}
_GLOBS = {"type": "array", "items": {"type": "string"}}
_SWITCH = {"type": "boolean", "default": False}

SETTINGS: dict[str, Setting] = {
    "select": Setting(
        _codes, _CODES, '["UC1", "UC301"]', "Report only these codes, or codes that begin so.", "all commands"
    ),
    "ignore": Setting(
        _codes, _CODES, '["UC104"]', "Don't report these codes, or codes that begin so.", "all commands"
    ),
    "per-file-ignores": Setting(
        _per_file,
        {"type": "object", "additionalProperties": _CODES},
        '{"tests/*" = ["UC102"]}',
        "Don't report these codes in files that match a glob.",
        "all commands",
    ),
    "strict": Setting(_READ_SWITCH, _SWITCH, "true", "Stop at writes that torch doesn't see, too.", "runs"),
    "fingerprint": Setting(
        _READ_SHARE,
        {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "boolean"}], "default": 0},
        "0.1",
        "Compare the values of this share of saved tensors at backward; true is 1.",
        "runs",
    ),
    "guard": Setting(_READ_SWITCH, _SWITCH, "true", "Give backward the values that were saved.", "runs"),
    "exclude": Setting(
        _READ_GLOBS, _GLOBS, '["vendored/"]', "Leave out files and folders that match a glob.", "check"
    ),
    "confidence": Setting(
        _READ_CONFIDENCE,
        {"enum": ["high", "medium"], "default": "medium"},
        '"high"',
        "Report only findings of at least this confidence.",
        "check",
    ),
    "baseline": Setting(
        _READ_FILE,
        {"type": "string"},
        '"known.json"',
        "Don't fail for the findings that this file knows.",
        "check",
    ),
    "cache-dir": Setting(
        _READ_FILE,
        {"type": "string", "default": ".unclobber_cache"},
        '".cache/unclobber"',
        "Keep in this folder which files have no findings.",
        "check",
    ),
}
"""Every key; the one definition of the settings."""
