"""The settings of ``[tool.unclobber]``, and those of the command line, which take precedence."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from .codes import SettingsError, covers
from .pyproject import SETTINGS


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The settings of one project; the default is that of a project without settings."""

    select: tuple[str, ...] | None = None  # codes, or beginnings of codes, that are reported; None for all
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Globs, each with the codes that are ignored in matching files."""
    strict: bool = False
    fingerprint: float = 0.0
    guard: bool = False
    folder: str = ""  # the folder of the settings file, where the globs start
    exclude: tuple[str, ...] = ()  # globs of files and folders that ``check`` leaves out
    confidence: Literal["high", "medium"] = "medium"
    """The least confidence of a finding that ``check`` reports."""
    baseline: str | None = None  # the path of the file of findings that ``check`` knows; None for none
    cache_dir: str | None = None
    """The path of the folder of ``check``'s cache; None for one of its own name next to the settings file."""
    given: tuple[str, ...] = ()  # the keys that the settings file has

    @staticmethod
    def of(folder: str) -> ProjectSettings:
        """Return the settings of the project that a folder belongs to.

        As in ruff, only the first pyproject.toml upward with a table ``[tool.unclobber]`` counts. Without
        one, the defaults apply.

        Raises:
            SettingsError: The file has a wrong key or value, or it is no TOML.
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

    @property
    def file(self) -> str:
        return os.path.join(self.folder, "pyproject.toml")

    def leaves_out(self, code: str, path: str | None) -> bool:
        """Return whether findings of a code are left out, everywhere or in this file.

        The longest beginning of the code decides between ``select`` and ``ignore``, as in ruff: with ``select
        = ["UC101"]`` and ``ignore = ["UC1"]`` UC101 is reported. If both have the same length, ``ignore``
        wins.
        """
        selected = 0 if self.select is None else _longest(self.select, code)
        if selected < 0 or _longest(self.ignore, code) >= max(selected, 1):
            return True
        return path is not None and any(
            covers(codes, code) and _matches(glob, path, self.folder) for glob, codes in self.per_file_ignores
        )

    def excludes(self, path: str) -> bool:
        if not self.exclude:
            return False
        # A glob of a folder leaves out all below it, so each folder on the way is compared, too.
        parts = os.path.relpath(path, self.folder).split(os.sep)
        above = [os.path.join(self.folder, *parts[: at + 1]) for at in range(len(parts))]
        return any(_matches(glob, each, self.folder) for glob in self.exclude for each in above)

    def under(self, *, select: Sequence[str] | None, ignore: Sequence[str]) -> ProjectSettings:
        """Return these settings, overridden by those of a command line.

        A selection there replaces ``select`` and ``ignore``. Codes that are only ignored there are added to
        ``ignore``, whatever ``select`` says of them.
        """
        if select:
            return replace(self, select=tuple(select), ignore=tuple(ignore))
        # Out of `select`, too, because a longer selected prefix wins over an ignored one in `leaves_out`.
        kept = self.select
        if kept is not None:
            kept = tuple(code for code in kept if not covers(ignore, code))
        return replace(self, select=kept, ignore=(*self.ignore, *ignore))

    def watching(
        self, *, guard: bool | None, strict: bool | None, fingerprint: float | None
    ) -> ProjectSettings:
        """Return these settings, overridden by what a session is given; None leaves them as they are."""
        guard = self.guard if guard is None else guard
        return replace(
            self,
            guard=guard,
            # Of both in the settings, guard precedes: it repairs what strict would stop at.
            strict=not guard and (self.strict if strict is None else strict),
            fingerprint=self.fingerprint if fingerprint is None else fingerprint,
        )


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


def _longest(prefixes: Sequence[str], code: str) -> int:
    return max((len(prefix) for prefix in prefixes if code.startswith(prefix)), default=-1)


def _matches(glob: str, path: str, folder: str) -> bool:
    """Return whether a glob matches a file's name, or its path from ``folder``.

    Example:
        >>> _matches("tests/*", "/p/tests/deep/a.py", "/p"), _matches("a.py", "/p/tests/deep/a.py", "/p")
        (True, True)
        >>> _matches("**/a.py", "/p/a.py", "/p"), _matches("tests/*", "/p/src/tests/a.py", "/p")
        (True, False)
    """
    try:
        relative = os.path.relpath(path, folder).replace(os.sep, "/")
    except ValueError:  # on another drive
        relative = path
    glob = glob.removeprefix("./") + ("*" if glob.endswith("/") else "")
    # `*` also matches folders, as in ruff; `**/` also matches no folder.
    patterns = (glob, glob.replace("**/", ""))
    # `fnmatchcase`, because `fnmatch` would ignore case and change slashes on Windows only.
    names = (relative, os.path.basename(path))
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)
