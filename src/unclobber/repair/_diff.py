"""The difference of two texts of a file: as a unified diff, as edits of whole lines, and in numbers."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from ..model import Edit


def changes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    # autojunk would take lines that are frequent in a long file for noise.
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return (code for code in codes if code[0] != "equal")  # as `SequenceMatcher.get_opcodes` does


def changed_lines(old: str, new: str) -> int:
    """Return how many lines a reader of the diff must read: the longer side of each changed stretch.

    Example:
        >>> changed_lines("a\\nb\\n", "a\\nB\\nc\\n")
        2
    """
    return sum(max(b - a, d - c) for _, a, b, c, d in changes(_lines(old), _lines(new)))


def edits(path: str, old: str, new: str) -> Iterator[Edit]:
    before, after = old.split("\n"), new.split("\n")
    for _, a, b, c, d in changes(before, after):
        # pure insertions and deletions include the neighbouring line, which locates them
        if a == b or c == d:
            a, c, b, d = (a - 1, c - 1, b, d) if a else (a, c, b + 1, d + 1)
        yield Edit(path, a + 1, _joined(before[a:b]), _joined(after[c:d]))


def line_of(edit: Edit) -> int:  # for inserted lines the one before which they are
    return edit.end_line + 1 if edit.new.startswith(f"{edit.old}\n") else edit.line


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines).removesuffix("\r")


def unified(old: str, new: str, name: str) -> str:  # `patch -p0` and `git apply -p0` accept it
    lines = difflib.unified_diff(_lines(old), _lines(new), name, name)
    missing = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else f"{line}{missing}" for line in lines)


def _lines(text: str) -> list[str]:
    # Not `splitlines`: to patch, form feeds and other separators that it splits at are part of a line, and so
    # is a lone carriage return (tests/unit/repair/test_apply.py).
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
