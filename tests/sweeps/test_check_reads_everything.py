"""``check`` follows every file of the standard library and of all that is installed, and never falls over."""

from __future__ import annotations

import sysconfig
import tokenize
import zlib
from functools import cache
from pathlib import Path

import pytest

from checked_text import check_text
from unclobber.static.files import check_file

PARTS = 50
FOLDERS = (Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib")))


def part_of(path: Path) -> int:
    """The same for a file wherever it is installed, and no package is all in one part."""
    return zlib.crc32("/".join(path.parts[-3:]).encode()) % PARTS


@cache
def files() -> list[Path]:
    """Every installed file, listed once a test needs them."""
    return sorted({path for folder in FOLDERS for path in folder.rglob("*.py") if path.is_file()})


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
def test_every_file_is_followed(part):
    """As if it used torch, with all rules; a file that is no Python is said to be none."""
    for path in files():
        if part_of(path) == part:
            followed(path)


def followed(path: Path) -> tuple[int, int]:
    """The lines of a file, and how many findings there are, once it is followed to its end."""
    try:
        with tokenize.open(path) as stream:
            text = stream.read()
        found = check_text(f"{text}\n# torch\n", str(path), all_rules=True)
    except (SyntaxError, ValueError):
        checked = check_file(str(path), all_rules=True)
        # A file that doesn't speak of torch is not even parsed.
        assert checked.problem or "torch" not in path.read_text(encoding="utf-8", errors="replace"), path
        return checked.lines, 0
    return text.count("\n"), len(found)
