"""The user's files: the editable ones, their texts, edits not yet written, and their writing."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from ..model import PACKAGE, Edit, UnclobberError
from . import _diff
from ._syntax import Source, parse
from ._text import Encoded, decode

_MARKERS = (".git", "pyproject.toml", "setup.py", "setup.cfg", ".hg")
_INSTALLED = ("site-packages", "dist-packages")
_OURS = os.path.realpath(PACKAGE)


class ApplyError(UnclobberError):
    """An edit could not be written; no file was changed unless the message says so."""


def root_of(script: str) -> str:
    """Return the folder below which files may be edited: the nearest project's, else the script's."""
    file = Path(os.path.realpath(script))
    projects = (at for at in file.parents if any(os.path.exists(at / marker) for marker in _MARKERS))
    return str(next(projects, file.parent))


def within(path: str, folder: str) -> bool:
    return os.path.commonpath([folder, path]) == folder


@lru_cache(maxsize=256)
def _parsed(text: str, notebook: str) -> Source | None:
    # Cached by text, because a candidate changes one file and leaves all others as they are.
    return parse(text, notebook)


@dataclass(frozen=True)
class Project:
    """The files below ``root``, with the new texts of a candidate in their place."""

    root: str
    overlay: Mapping[str, str] = field(default_factory=dict)
    loaded: tuple[str, ...] = ()  # files of the project that the program has loaded
    originals: dict[str, bytes] = field(default_factory=dict, compare=False)
    """The content of each file when it was first read, for which edits are made and proved."""
    notebook: str = ""  # the code of all cells, which share their names, if the program is a notebook

    @classmethod
    def of(cls, script: str, root: str = "") -> Project:
        return cls(root or root_of(script))

    @property
    def on_disk(self) -> Project:
        return replace(self, overlay={})

    def owns(self, path: str) -> bool:
        real = os.path.realpath(path)
        relative = os.path.relpath(real, self.root).split(os.sep)
        installed = any(part in _INSTALLED for part in relative) or within(real, _OURS)
        return within(real, self.root) and not installed and os.path.isfile(real)

    def encoded(self, path: str) -> Encoded | None:
        """Return the file on disk; None if it may not be edited or can't be decoded as Python."""
        if not self.owns(path):
            return None
        real = os.path.realpath(path)
        if real not in self.originals:
            try:
                with open(real, "rb") as stream:
                    self.originals[real] = stream.read()
            except OSError:
                return None
        return decode(self.originals[real])

    def text(self, path: str) -> str | None:
        path = os.path.realpath(path)
        if path in self.overlay:
            return self.overlay[path]
        encoded = self.encoded(path)
        return None if encoded is None else encoded.text

    def source(self, path: str) -> Source | None:
        text = self.text(path)
        return None if text is None else _parsed(text, self.notebook)

    def sources(self, near: Iterable[str], word: str) -> Iterator[tuple[str, Source]]:
        # One by one as they are needed: a program may load hundreds.
        for path in dict.fromkeys(os.path.realpath(path) for path in (*near, *self.loaded)):
            if word in (self.text(path) or "") and (source := self.source(path)) is not None:
                yield path, source

    # --- edits ------------------------------------------------------------------------------------

    def lines_changed(self, texts: Mapping[str, str]) -> int:
        return sum(_diff.changed_lines(self.text(path) or "", text) for path, text in texts.items())

    def edits(self, texts: Mapping[str, str]) -> tuple[Edit, ...]:
        files = ((path, self.text(path) or "", texts[path]) for path in sorted(texts))
        return tuple(edit for file in files for edit in _diff.edits(*file))

    def diff(self, texts: Mapping[str, str]) -> str:
        """Return the diff from the files on disk to new texts, for ``git apply -p0`` or ``patch -p0``."""
        folder = os.path.realpath(os.getcwd())
        parts = []
        for path in sorted(texts):
            encoded = self.encoded(path)
            if encoded is not None and encoded.text != texts[path]:
                name = os.path.relpath(path, folder).replace(os.sep, "/")
                mark = encoded.mark.decode("utf-8")
                parts.append(_diff.unified(mark + encoded.text, mark + texts[path], name))
        return "".join(parts)

    def write(self, texts: Mapping[str, str]) -> list[str]:
        """Write new texts to the files, which must hold what they held when they were first read.

        Encoding, newlines, byte order mark and permissions stay, and a symbolic link stays one. Return the
        paths. An ApplyError says that a file has changed since, isn't the project's, or can't be written.
        """
        # The target of a link, so that the link itself stays (test_apply.py,
        # test_permissions_and_links_stay).
        return _write_all([self._ready(os.path.realpath(path), text) for path, text in texts.items()])

    def _ready(self, path: str, text: str) -> tuple[str, bytes]:
        """Return a file with the bytes of its new text."""
        if not self.owns(path):
            raise ApplyError(f"{path} is not a file of the project {self.root}, so it is left as it is.")
        try:
            with open(path, "rb") as stream:
                current = stream.read()
        except OSError as error:
            raise ApplyError(f"can't read {path}: {error.strerror}.") from None
        if current != self.originals.get(path):
            raise ApplyError(f"{path} has changed since the fix was proved. Run `unclobber fix` again.")
        encoded = decode(current)
        if encoded is None:
            raise ApplyError(f"{path} can't be decoded, so it is left as it is.")
        try:
            return path, encoded.encode(text)
        except UnicodeEncodeError as error:
            lacking = error.object[error.start]
            raise ApplyError(f"{path} is {encoded.encoding}, which has no {lacking!r}.") from None

    def with_texts(self, texts: Mapping[str, str]) -> Project:
        new = {os.path.realpath(path): text for path, text in texts.items()}
        return replace(self, overlay={**self.overlay, **new})


def _write_all(ready: Sequence[tuple[str, bytes]]) -> list[str]:
    """Write files, given with their new bytes. Return their paths.

    Each is written next to the old one and replaces it in one step. All are staged first, so that most errors
    come before any change.

    Raises:
        ApplyError: A file can't be written.
    """
    staged: list[tuple[str, str]] = []
    written: list[str] = []
    try:
        for path, data in ready:
            staged.append((_stage(path, data), path))
        for temporary, path in staged:
            os.replace(temporary, path)
            written.append(path)
    except OSError as error:
        done = f" Already written: {', '.join(written)}." if written else ""
        raise ApplyError(f"can't write: {error.strerror or error}.{done}") from error
    finally:
        for temporary, _ in staged:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
    return written


def _stage(path: str, data: bytes) -> str:
    """Write a file's new content next to it, with its owner and permissions. Return the temporary path."""
    # `os.replace` would replace a read-only file in a folder that may be written (test_apply.py,
    # test_an_unwritable_file_leaves_the_others).
    if not os.access(path, os.W_OK):
        raise PermissionError(13, f"{path} is read-only")
    folder, name = os.path.split(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".part", dir=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            # On disk before it replaces the old file, or a crash could leave an empty one.
            os.fsync(stream.fileno())
        status = os.stat(path)
        os.chmod(temporary, status.st_mode & 0o7777)
        # Only root may give a file to another owner.
        with contextlib.suppress(PermissionError):
            os.chown(temporary, status.st_uid, status.st_gid)
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary
