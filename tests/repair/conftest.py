"""``fix(text, *options)``: run the command on a program in a project of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest


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
        done = subprocess.run(
            [sys.executable, "-m", "unclobber", "fix", *options, "train.py", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        return Fixed(done.returncode, done.stdout, done.stderr, script)

    return run
