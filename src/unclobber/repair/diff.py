"""Edits as a unified diff that ``patch -p0`` and ``git apply`` accept."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping

from .project import Project


def changed_lines(old: str, new: str) -> int:
    """Return the number of lines that a reader of the diff must read: the longer side of each changed
    stretch.

    Example:
        >>> changed_lines("a\\nb\\n", "a\\nB\\nc\\n")
        2
    """
    before, other = _lines(old), _lines(new)
    # autojunk would take lines that are frequent in a long file for noise.
    codes = difflib.SequenceMatcher(None, before, other, autojunk=False).get_opcodes()
    return sum(max(b - a, d - c) for tag, a, b, c, d in codes if tag != "equal")


def unified(project: Project, texts: Mapping[str, str], *, relative_to: str | None = None) -> str:
    """Return the diff from the files on disk to new texts.

    Args:
        project: The project with the files.
        texts: Absolute path to new text.
        relative_to: The folder in which the diff is to be applied; the working directory if None. ``git
            apply`` and ``patch -p0`` both take the paths without a prefix of their own (``git apply -p0``).
    """
    folder = os.path.realpath(relative_to or os.getcwd())
    parts = []
    for path in sorted(texts):
        encoded = project.encoded(path)
        if encoded is None or encoded.text == texts[path]:
            continue
        name = os.path.relpath(path, folder).replace(os.sep, "/")
        mark = encoded.mark.decode("utf-8")
        parts += _file_diff(mark + encoded.text, mark + texts[path], name)
    return "".join(parts)


def _file_diff(old: str, new: str, name: str) -> list[str]:
    """Return the diff of one file, with a note on a missing newline at its end."""
    lines = []
    for line in difflib.unified_diff(_lines(old), _lines(new), name, name):
        lines.append(line)
        if not line.endswith("\n"):
            lines.append("\n\\ No newline at end of file\n")
    return lines


def _lines(text: str) -> list[str]:
    # Not `splitlines`: to patch, form feeds and other separators that it splits at are part of a line, and so
    # is a lone carriage return (tests/unit/repair/test_apply.py).
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
