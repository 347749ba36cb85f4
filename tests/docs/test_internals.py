"""The maintainers' page names files and functions that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "unclobber"
PATH = re.compile(r"`([\w/]+(?:\.py|\.cpp|/))`")
NAME = re.compile(r"`(?:unclobber\.)?([A-Za-z_]\w*(?:\.\w+)?)(?:\(\))?`")
NOT_OURS = {"add_", "exp", "check", "fix", "memory"}


def unknown(page: str) -> set[str]:
    """Return the paths and names in backticks that the package doesn't have."""
    page = re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S)
    files = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    defined = set(re.findall(r"^ *(?:class|def) (\w+)", "\n".join(files.values()), re.M))
    missing = {path for path in PATH.findall(page) if not (PACKAGE / path).exists()}
    named = {name for name in NAME.findall(page) if name not in NOT_OURS}
    return missing | {name for name in named if not set(name.split(".")) <= defined}


def test_every_file_and_function_exists():
    page = (ROOT / "docs" / "internals.md").read_text(encoding="utf-8")
    assert len(PATH.findall(page)) > 20
    assert unknown(page) == set()


def test_a_wrong_name_is_noticed():
    page = "`observe/__init__.py` `Ledger.state_of`, `observe/nowhere.py` and `Ledger.standing_of` see `add_`"
    assert unknown(page) == {"observe/nowhere.py", "Ledger.standing_of"}
