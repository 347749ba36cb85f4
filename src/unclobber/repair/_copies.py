"""A copy of the program's folder for each run, so that a run's writes reach neither the user's files nor the
next run.

Every copy is at the same path, so that the paths a program prints are the same in all runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .project import root_of

MOST_BYTES = 256 * 2**20
MOST_FILES = 20_000
"""Limits of a copied folder: programs in larger ones run in place."""

_LINKED = frozenset({".git", ".hg", ".svn", "node_modules", ".tox", ".nox"})
_DROPPED = frozenset({"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"})
_ENVIRONMENT = "pyvenv.cfg"


@dataclass(frozen=True, slots=True)
class Copy:
    """The copied folders and their copies; picklable."""

    pairs: tuple[tuple[str, str], ...]
    """Pairs of real paths: a folder and its copy."""

    def there(self, path: str) -> str:
        """Return the path of a file's or folder's copy; the path itself if it isn't copied."""
        return _moved(path, self.pairs)

    def here(self, path: str) -> str:
        """Return the user's own path of a file in a copy."""
        return _moved(path, tuple((copy, folder) for folder, copy in self.pairs))

    def fill(self, texts: Mapping[str, str]) -> None:
        """Make the copies afresh, with edited texts in place of their files.

        The texts must be on disk, because processes that the program starts read them from there.
        """
        for folder, copy in self.pairs:
            shutil.rmtree(copy, ignore_errors=True)
            _copy_tree(folder, copy)
        for path, text in texts.items():
            copy = self.there(path)
            if copy != path:
                with open(copy, "w", encoding="utf-8", newline="") as stream:
                    stream.write(text)

    def files(self) -> Iterator[str]:
        """Yield every file in the copies that is no link."""
        for _, copy in self.pairs:
            for folder, names, files in os.walk(copy):
                names[:] = [name for name in names if name not in _DROPPED]
                yield from (path for name in files if not os.path.islink(path := os.path.join(folder, name)))


NOWHERE = Copy(())
"""A copy of nothing."""


def copy_for(script: str, home: str) -> Copy:
    """Return the copies for a script that runs from the working directory: of its project, and of that
    directory.

    Args:
        home: A folder of unclobber's for the copies.

    Returns:
        A Copy without pairs if the folders are too large.
    """
    root, here = root_of(script), os.path.realpath(os.getcwd())
    if _within(here, root):
        wanted = [root]
    elif _within(root, here) and _fits(here, home):
        wanted = [here]
    else:
        wanted = [root] if _within(root, here) else [root, here]
    fitting = [folder for folder in wanted if _fits(folder, home)]
    pairs = []
    for number, folder in enumerate(fitting):
        pairs.append((folder, os.path.join(home, f"copy-{number}", os.path.basename(folder) or "root")))
    return Copy(tuple(pairs))


def _within(path: str, folder: str) -> bool:
    return os.path.commonpath([path, folder]) == folder


def _moved(path: str, pairs: tuple[tuple[str, str], ...]) -> str:
    """Return the path in the other folder of its pair; the path itself if it is in none."""
    for folder, other in pairs:
        if path == folder or path.startswith(folder + os.sep):
            return other + path[len(folder) :]
    return path


def _fits(folder: str, home: str) -> bool:
    """Return whether a folder is small enough to be copied, and not around ``home``."""
    if _within(home, folder):
        return False
    size = count = 0
    for at, names, files in os.walk(folder):
        names[:] = [name for name in names if not _is_apart(os.path.join(at, name))]
        count += len(files) + len(names)
        for name in files:
            try:
                size += os.lstat(os.path.join(at, name)).st_size
            except OSError:
                continue
        if size > MOST_BYTES or count > MOST_FILES:
            return False
    return True


def _is_apart(path: str) -> bool:
    """Return whether a folder isn't the program's own: version control, an environment, a cache."""
    name = os.path.basename(path)
    return name in _LINKED or name in _DROPPED or os.path.exists(os.path.join(path, _ENVIRONMENT))


def _copy_tree(folder: str, copy: str) -> None:
    """Copy a folder; link folders that aren't the program's own, and files that can't be read."""
    os.makedirs(copy, exist_ok=True)
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        target = os.path.join(copy, entry.name)
        if entry.is_symlink():
            _link(os.path.join(folder, os.readlink(entry.path)), target)
        elif entry.is_dir():
            if entry.name in _DROPPED:
                continue
            if _is_apart(entry.path):
                _link(entry.path, target)
            else:
                _copy_tree(entry.path, target)
        elif entry.is_file():
            try:
                shutil.copy2(entry.path, target)
            except OSError:
                _link(entry.path, target)  # an unreadable file must still exist in the copy
    shutil.copystat(folder, copy)


def _link(to: str, at: str) -> None:
    os.symlink(to, at)
