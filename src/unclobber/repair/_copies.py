"""A copy of the program's folder for each run, whose writes reach neither the user's files nor the next run.

Every copy is at the same path, so that the paths a program prints are the same in all runs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .project import within

MOST_BYTES = 256 * 2**20
MOST_FILES = 20_000  # limits of a copied folder: programs in larger ones run in place

_LINKED = frozenset({".git", ".hg", ".svn", "node_modules", ".tox", ".nox"})
_DROPPED = frozenset({"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"})


@dataclass(frozen=True, slots=True)
class Copy:
    """The copied folders and their copies; picklable."""

    pairs: tuple[tuple[str, str], ...]  # pairs of real paths: a folder and its copy

    def there(self, path: str) -> str:
        return _moved(path, self.pairs)

    def here(self, path: str) -> str:
        return _moved(path, tuple((copy, folder) for folder, copy in self.pairs))

    def files(self) -> Iterator[str]:
        for _, copy in self.pairs:
            yield from (path for path in files_in(copy) if not os.path.islink(path))


def files_in(top: str, apart: str | None = None) -> Iterator[str]:
    """Yield each file of a folder and its links; ``apart``: none in it, nor in folders of no program."""
    for folder, names, files in os.walk(top):
        names[:] = [name for name in names if name not in _DROPPED]
        if apart is not None:
            paths = ((name, os.path.join(folder, name)) for name in names)
            names[:] = [name for name, path in paths if path != apart and not _is_apart(path)]
        yield from (os.path.join(folder, name) for name in files)


NOWHERE = Copy(())  # a copy of nothing


def copy_for(root: str, home: str) -> Copy:
    """Return the copies, in unclobber's own folder ``home``, of a program's project and of the working
    directory; without pairs if the folders are too large."""
    here = os.path.realpath(os.getcwd())
    if within(here, root):
        wanted = [root]
    elif within(root, here):  # one copy of the working directory holds the project, too
        wanted = [here] if _fits(here, home) else [root]
    else:
        wanted = [root, here]
    fitting = [folder for folder in wanted if _fits(folder, home)]
    places = (os.path.join(home, f"copy-{n}", os.path.basename(of) or "root") for n, of in enumerate(fitting))
    return Copy(tuple(zip(fitting, places, strict=True)))


def _moved(path: str, pairs: tuple[tuple[str, str], ...]) -> str:
    for folder, other in pairs:
        if path == folder or path.startswith(folder + os.sep):
            return other + path[len(folder) :]
    return path


def _fits(folder: str, home: str) -> bool:
    """Return whether a folder is small enough to be copied, and not around ``home``."""
    if within(home, folder):
        return False
    size = 0
    for count, path in enumerate(files_in(folder, home), 1):
        with contextlib.suppress(OSError):
            size += os.lstat(path).st_size  # a link counts by itself, because it is copied as a link
        if size > MOST_BYTES or count > MOST_FILES:
            return False
    return True


def _is_apart(path: str) -> bool:  # version control, an environment, a cache
    name = os.path.basename(path)
    return name in _LINKED or name in _DROPPED or os.path.exists(os.path.join(path, "pyvenv.cfg"))


_Marks = tuple[int, ...]


class Filler:
    """Makes the copies equal to their folders before each run.

    Only files that changed since the last run are copied again, because a project of 2,000 files takes a
    second to copy.
    """

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._made: dict[str, tuple[_Marks, _Marks]] = {}
        """Path of each copied file to the marks of the user's file and of the copy, when that was made."""

    def fill(self, texts: Mapping[str, str]) -> None:
        """Make the copies equal to their folders, with edited texts in place of their files.

        The texts must be on disk, because processes that the program starts read them from there.
        """
        for folder, copy in self._copy.pairs:
            try:
                self._refresh(folder, copy)
            except OSError:  # the run took the rights to its own folders away
                shutil.rmtree(copy, ignore_errors=True)
                self._made.clear()
                self._refresh(folder, copy)
        for path, text in texts.items():
            copy = self._copy.there(path)
            if copy != path:
                with open(copy, "w", encoding="utf-8", newline="") as stream:
                    stream.write(text)

    def _refresh(self, folder: str, copy: str) -> None:
        """Make a copy equal to its folder: replace only what differs, and remove what is gone."""
        os.makedirs(copy, exist_ok=True)
        with os.scandir(copy) as entries:
            left = {entry.name: entry for entry in entries}
        with os.scandir(folder) as entries:
            wanted = [entry for entry in entries if entry.name not in _DROPPED or not entry.is_dir()]
        for entry in wanted:
            target = os.path.join(copy, entry.name)
            before = left.pop(entry.name, None)
            if entry.is_dir(follow_symlinks=False) and not _is_apart(entry.path):
                if before is not None and not before.is_dir(follow_symlinks=False):
                    _remove(before)
                self._refresh(entry.path, target)
                continue
            own = marks(entry.path)
            if before is not None:
                if self._made.get(target) == (own, marks(target)):
                    continue
                _remove(before)
            if _put(entry, target):
                self._made[target] = own, marks(target)
        for entry in left.values():
            _remove(entry)
        # Last, because writing into the folder changes its time.
        shutil.copystat(folder, copy)


def _put(entry: os.DirEntry[str], target: str) -> bool:
    """Copy a file, or link what is no file of the program's own; return whether it was either."""
    if entry.is_symlink():
        os.symlink(os.path.join(os.path.dirname(entry.path), os.readlink(entry.path)), target)
    elif entry.is_dir():
        os.symlink(entry.path, target)
    elif entry.is_file():
        try:
            shutil.copy2(entry.path, target)
        except OSError:
            os.symlink(entry.path, target)  # an unreadable file must still exist in the copy
    else:
        return False
    return True


def marks(path: str) -> _Marks:
    """Return numbers that change whenever a file does, even if a program restores its modification time."""
    facts = os.lstat(path)
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, facts.st_mode


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path)
    else:
        os.unlink(entry.path)
