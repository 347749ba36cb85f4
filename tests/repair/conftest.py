"""``fix(text, *options)``: run the command on a program in a project of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import warm
from unclobber.cli import main
from unclobber.repair import proof


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


Fix = Callable[..., Fixed]


@pytest.fixture(scope="session")
def driver() -> Iterator[proof.Runner]:
    """One process that runs candidates, for all tests of a worker: starting one takes seconds.

    ``2`` and a line end were piped into the command.
    """
    before, (read, write) = os.dup(0), os.pipe()
    os.write(write, b"2\n")
    os.dup2(read, 0)
    try:
        one = proof.Runner().__enter__()
    finally:
        for descriptor in (read, write):
            os.close(descriptor)
        os.dup2(before, 0)
        os.close(before)
    with contextlib.ExitStack() as stack:
        stack.push(one)
        yield one


@pytest.fixture
def fix(tmp_path: Path, driver: proof.Runner, monkeypatch: pytest.MonkeyPatch) -> Fix:
    """The command in the project's folder, with a driver that is there already."""

    @contextlib.contextmanager
    def kept(timeout: float, seconds_to_end: float) -> Iterator[proof.Runner]:
        driver.timeout, driver.seconds_to_end = timeout, seconds_to_end
        yield driver

    def call(words: list[str]) -> tuple[int, str, str]:
        with (
            monkeypatch.context() as here,
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            here.chdir(tmp_path)
            here.setattr(proof, "Runner", kept)
            return main(words), out.getvalue(), err.getvalue()

    return _fixing(tmp_path, call)


@pytest.fixture
def fix_process(tmp_path: Path) -> Fix:
    """The same in a process of its own."""

    def call(words: list[str]) -> tuple[int, str, str]:
        done = warm.unclobber(*words, cwd=tmp_path, timeout=280)
        return done.returncode, done.stdout, done.stderr

    return _fixing(tmp_path, call)


def _fixing(folder: Path, call: Callable[[list[str]], tuple[int, str, str]]) -> Fix:
    def run(
        text: str,
        *options: str,
        arguments: tuple[str, ...] = (),
        files: dict[str, str] | None = None,
        words: tuple[str, ...] = ("train.py",),
    ) -> Fixed:
        (folder / "pyproject.toml").touch()
        script = folder / "train.py"
        script.write_text(dedent(text).lstrip("\n"))
        os.utime(script, (0, 0))  # older than the driver's process, as a user's file is
        for name, content in (files or {}).items():
            (folder / name).write_text(dedent(content).lstrip("\n"))
        return Fixed(*call(["fix", *options, *words, *arguments]), script)

    return run
