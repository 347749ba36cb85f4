"""Write proved edits to the user's files: all of them or none, and nothing else."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping

from ..model import UnclobberError
from ._text import decode
from .project import Project


class ApplyError(UnclobberError):
    """An edit could not be written; no file was changed unless the message says so."""


def read(project: Project, paths: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files' bytes at the time of the proof, with which ``write`` compares.

    Raises:
        ApplyError: A file is outside the project or can't be read.
    """
    contents = {}
    for path in paths:
        if not project.owns(path):
            raise ApplyError(f"{path} is not a file of the project {project.root}, so it is left as it is.")
        try:
            with open(path, "rb") as stream:
                contents[path] = stream.read()
        except OSError as error:
            raise ApplyError(f"can't read {path}: {error.strerror}.") from None
    return contents


def write(project: Project, texts: Mapping[str, str], before: Mapping[str, bytes]) -> list[str]:
    """Write new texts.

    Each file is written next to the old one and replaces it in one step; encoding, newlines, byte order mark
    and permissions stay. A symbolic link stays a link.

    Args:
        before: The files' bytes when the edits were proved.

    Returns:
        The paths that were written.

    Raises:
        ApplyError: A file has changed since, isn't the project's, or can't be written.
    """
    ready: list[tuple[str, bytes]] = []
    for path, text in texts.items():
        # The target of a link, so that the link itself stays (test_apply.py,
        # test_permissions_and_links_stay).
        real = os.path.realpath(path)
        current = read(project, {real: ""})[real]
        if current != before.get(path, before.get(real)):
            raise ApplyError(f"{path} has changed since the fix was proved. Run `unclobber fix` again.")
        encoded = decode(current)
        if encoded is None:
            raise ApplyError(f"{path} can't be decoded, so it is left as it is.")
        try:
            ready.append((real, encoded.encode(text)))
        except UnicodeEncodeError as error:
            raise ApplyError(
                f"{path} is {encoded.encoding}, which has no {error.object[error.start]!r}."
            ) from None
    return _write_all(ready)


def _write_all(ready: list[tuple[str, bytes]]) -> list[str]:
    """Stage all files first, then replace them, so that most errors come before any change."""
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
        if hasattr(os, "chown"):
            # Only root may give a file to another owner.
            with contextlib.suppress(PermissionError):
                os.chown(temporary, status.st_uid, status.st_gid)
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary
