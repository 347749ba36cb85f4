"""``fix(text, *options)``: run the command on a program in a project of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import warm


@dataclass(frozen=True)
class Fixed:
    """One run of ``unclobber fix``."""

    code: int
    out: str
    err: str
    script: Path

    @property
    def text(self) -> str:
        """What the script holds afterwards."""
        return self.script.read_text()

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


@pytest.fixture
def fix(tmp_path: Path) -> Callable[..., Fixed]:
    """The command as a process, in the project's folder."""

    def run(
        text: str, *options: str, arguments: tuple[str, ...] = (), files: dict[str, str] | None = None
    ) -> Fixed:
        (tmp_path / "pyproject.toml").touch()
        script = tmp_path / "train.py"
        script.write_text(dedent(text).lstrip("\n"))
        for name, content in (files or {}).items():
            (tmp_path / name).write_text(dedent(content).lstrip("\n"))
        words = ["-m", "unclobber", "fix", *options, "train.py", *arguments]
        done = warm.python(*words, cwd=tmp_path, timeout=280)
        return Fixed(done.returncode, done.stdout, done.stderr, script)

    return run
