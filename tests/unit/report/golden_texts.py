"""Whole texts kept in files, compared to the last space."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

import pytest

from torch_words import as_written, same


@dataclass
class Golden:
    """Texts in a folder; ``update`` writes where it would compare."""

    folder: Path
    update: bool = False

    def check(self, name: str, text: str) -> None:
        """Fail with a diff unless the file holds exactly this text and one newline, in this torch's words."""
        path = self.folder / name
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"{name} does not exist; --update-golden writes it", pytrace=False)
        kept = path.read_text(encoding="utf-8")
        if not same(f"{as_written(text)}\n", kept):
            diff = difflib.unified_diff(
                kept.splitlines(), (text + "\n").splitlines(), name, "now", lineterm=""
            )
            detail = "\n".join(diff) or "they differ in line ends or the newline at the end"
            pytest.fail(f"{name} differs; --update-golden rewrites it\n{detail}", pytrace=False)
