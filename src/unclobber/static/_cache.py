"""The result of one file, and the cache of a check: the files in which nothing was found, by their content.

A file with a finding is checked again each time: findings are few, and a cache of plain facts can be read
from a project that is not trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from ..model import PACKAGE, VERSION, Finding, or_default, write_cached


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """The result of one file."""

    path: str  # absolute path
    lines: int = 0
    findings: tuple[Finding, ...] = ()
    problem: str = ""  # the reason why the file could not be checked; no full stop
    error: SyntaxError | None = None
    """The error at a text that is no Python; its ``filename`` is the file's path, or a cell's."""
    commented: tuple[str, ...] = ()
    """The paths of the texts that may hold a comment for unclobber: the file, or cells of a notebook."""
    read: tuple[str, ...] = ()
    """Absolute paths of other files on which the result depends, of some only that they aren't there."""


class CheckCache:
    """The entries of one folder, read at once and written once at the end.

    Several processes may use one folder: each replaces the file as a whole, and keeps what others have added.

    Args:
        folder: Absolute path; it need not exist, and nothing is kept if it can't be written.
        all_rules: Whether the rules that need a request are applied.
    """

    def __init__(self, folder: str, *, all_rules: bool) -> None:
        """Read the entries that an earlier check with the same rules and the same unclobber has left."""
        self._folder = folder
        self._path = os.path.join(folder, "check-all.json" if all_rules else "check.json")
        # By relative paths, so that the whole project may be moved; many files import the same.
        self._name = cache(lambda path: or_default(partial(os.path.relpath, path, folder), path))
        self._digest_at: Callable[[str], str] = cache(lambda name: _digest(os.path.join(folder, name)))
        self._known = self._read()
        self._digests: dict[str, str] = {}
        self._new: dict[str, list[Any] | None] = {}
        """The entries of this check; None for a file that gets none."""

    def known(self, path: str, *, is_named: bool) -> CheckedFile | None:
        digest = self._digests[path] = _digest(path, is_named=is_named)
        match self._known.get(self._name(path)):
            case [str(then), int(lines), list(commented), dict(others)] if then == digest and digest:
                if all(self._digest_at(name) == was for name, was in others.items()):
                    return CheckedFile(path, lines, commented=tuple(f"{path}{part}" for part in commented))
        return None

    def keep(self, result: CheckedFile, *, is_named: bool) -> None:
        """Note the result of a file that was checked, if nothing was found in it."""
        path, is_clean = result.path, not (result.findings or result.problem)
        digest, name = self._digests.get(path, ""), self._name(path)
        # Read once more, because the file may have been edited since.
        if is_clean and digest and digest == _digest(path, is_named=is_named):
            commented = [text[len(path) :] for text in result.commented]
            others = {name: self._digest_at(name) for name in map(self._name, result.read)}
            self._new[name] = [digest, result.lines, commented, others]
        elif name in self._known:
            self._new[name] = None

    def write(self) -> None:
        """Write the entries of this check and those of other files that still exist."""
        if not self._new:
            return
        entries = {
            name: entry
            for name, entry in (self._read() | self._new).items()
            if entry is not None and (name in self._new or os.path.exists(os.path.join(self._folder, name)))
        }
        write_cached(self._path, json.dumps({"engine": _engine(), "files": entries}).encode())

    def _read(self) -> dict[str, Any]:
        """Return the entries of the file; none of a broken one, or of another unclobber's."""
        with suppress(OSError, ValueError, RecursionError), open(self._path, encoding="utf-8") as stream:
            match json.load(stream):
                case {"engine": str(engine), "files": dict(files)} if engine == _engine():
                    return files
        return {}


def _digest(path: str, *, is_named: bool = False) -> str:
    # By the normal path, because the cache's own folder may not be there yet.
    with suppress(OSError), open(os.path.normpath(path), "rb") as stream:
        # A file that a user has named is parsed even without torch in it.
        return hashlib.sha256(stream.read() + (b"\0named" if is_named else b"")).hexdigest()
    return ""


@cache
def _engine() -> str:
    """Return a digest of this package's code and of Python's version."""
    rows = [VERSION, sys.version]
    for room in ("static", "syntax", "model"):
        # By time and size, because a package under development changes without a new version.
        with suppress(OSError):
            for entry in sorted(os.scandir(os.path.join(PACKAGE, room)), key=lambda entry: entry.name):
                if entry.is_file():
                    rows.append(f"{entry.name} {entry.stat().st_size} {entry.stat().st_mtime_ns}")
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()
