"""``[tool.unclobber]`` of the nearest pyproject.toml."""

from __future__ import annotations

import os
from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from ._project import ProjectSettings
from .codes import checked
from .errors import SettingsError

NAME = "pyproject.toml"


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
def _upward(folder: str) -> tuple[str, ...]:
    """Return the possible paths of a pyproject.toml; cached, because each context needs them when it is
    entered."""
    here = Path(folder)
    return tuple(str(parent / NAME) for parent in (here, *here.parents))


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
        if key not in _READERS:
            close = get_close_matches(key.lower().replace("_", "-"), _READERS, 1)
            meant = f": did you mean `{close[0]}`?" if close else "."
            raise SettingsError(
                f"there is no key `{key}` in [tool.unclobber] of {path}{meant} "
                f"The keys are {', '.join(_READERS)}."
            )
    values = {
        key.replace("-", "_"): _READERS[key](value, f"`{key}` in [tool.unclobber] of {path}")
        for key, value in table.items()
    }
    # The file's folder, because globs start there even if the run starts in a folder below.
    return ProjectSettings(**values, folder=os.path.dirname(path))


def _codes(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(code, str) for code in value):
        _wrong(value, where, 'a list of codes or of their beginnings, such as ["UC102", "UC2"]')
    return checked(value, where)


def _per_file(value: Any, where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        _wrong(value, where, 'a table of globs with lists of codes, such as {"tests/*" = ["UC102"]}')
    return tuple((glob, _codes(codes, f'"{glob}" of {where}')) for glob, codes in value.items())


def _switch(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        _wrong(value, where, "true or false")
    return value


def _share(value: Any, where: str) -> float:
    # `true` is an int, and means all of them; NaN fails both comparisons.
    if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
        _wrong(value, where, "a number from 0 to 1, or true for 1")
    return float(value)


def _wrong(value: Any, where: str, what: str) -> NoReturn:
    raise SettingsError(f"{where} is {_toml(value)}: it is {what}.")


def _toml(value: Any) -> str:
    """Return a value about as it was written."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return "a table" if isinstance(value, dict) else str(value)


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "select": _codes,
    "ignore": _codes,
    "per-file-ignores": _per_file,
    "strict": _switch,
    "fingerprint": _share,
    "guard": _switch,
}
"""Every key with the function that reads its value."""
