"""The keys of ``[tool.unclobber]`` in pyproject.toml."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from ..model import CODES
from .codes import SettingsError, checked

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
