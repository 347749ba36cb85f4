"""Write files: all of them or none, and nothing else."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence

from ..model import UnclobberError


class ApplyError(UnclobberError):
    """An edit could not be written; no file was changed unless the message says so."""


def write_all(ready: Sequence[tuple[str, bytes]]) -> list[str]:
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
        if hasattr(os, "chown"):
            # Only root may give a file to another owner.
            with contextlib.suppress(PermissionError):
                os.chown(temporary, status.st_uid, status.st_gid)
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary
