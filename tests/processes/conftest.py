"""Start programs as a user does: in a process of their own, with a time limit."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import warm

LIMIT = 60
"""Seconds. Importing torch takes two of them, on a busy machine many more."""


@dataclass
class Shell:
    """A directory with programs in it, and ways to run them there."""

    directory: Path
    warm: bool = False
    """Whether our command runs in a fork of a Python that has imported torch."""

    def write(self, name: str, text: str) -> Path:
        """Write a program's text, dedented, and give its path."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def python(self, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
        """The plain interpreter: what a program does without us."""
        return self._start([sys.executable, *words], **options)

    def unclobber(self, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
        """Our command."""
        if self.warm and not options:
            return warm.unclobber(*words, cwd=self.directory, timeout=LIMIT)
        return self._start([sys.executable, "-m", "unclobber", *words], **options)

    def _start(
        self,
        words: Sequence[str],
        *,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        limit: int = LIMIT,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self.directory,
            env={**os.environ, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=limit,
            check=False,
        )


@pytest.fixture
def shell(tmp_path: Path, request: pytest.FixtureRequest) -> Shell:
    """An empty directory to run programs in; with ``WARM`` in a file of tests, in a warm process: there it is
    the findings that are tested, not how a process begins. A test may set ``shell.warm`` itself."""
    return Shell(tmp_path, getattr(request.module, "WARM", False))


Same = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def same(shell: Shell) -> Same:
    """Run words with and without us and compare exit code, stdout and stderr; gives our process."""

    def run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
        plain = shell.python(*words, **options)
        ours = shell.unclobber("run", *words, **options)
        assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)
        return ours

    return run
