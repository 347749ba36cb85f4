"""The process that runs candidates, seen from outside: torch is imported there, not here."""

from __future__ import annotations

import contextlib
import glob
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..model import PACKAGE
from ._copies import NOWHERE, Copy, Filler, copy_for
from ._job import INTERRUPTED, Ended, Job, Ran, Surroundings
from .project import root_of


@dataclass(eq=False)
class Runner:
    """A driver process, which the ``with`` statement starts, with time limits of a run and one to its end."""

    timeout: float = 120.0
    seconds_to_end: float = 60.0
    runs: int = 0
    reads: set[str] | None = field(default_factory=set)
    """The files that the runs have read, but no temporary ones; None if some may be unknown."""
    copy: Copy = NOWHERE  # the copy of the program's folder, from the first run on
    _copied_for: tuple[str, str] = ("", "")
    _filler: Filler = field(default_factory=lambda: Filler(NOWHERE))
    _process: subprocess.Popen[str] | None = None
    _input: int = -1
    _folder: str | None = None

    def __enter__(self) -> Runner:
        self._folder = os.path.realpath(tempfile.mkdtemp(prefix="unclobber-fix-"))
        with contextlib.suppress(OSError):
            self._input = os.dup(0) if os.name == "posix" else -1  # no descriptor is handed on elsewhere
        self._driver()  # so that it imports torch while this process parses
        return self

    def __exit__(self, *error: Any) -> None:
        self._end(in_the_middle=error[0] is not None)
        if self._input >= 0:
            os.close(self._input)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, *, in_the_middle: bool) -> None:
        """End the driver process, if there is one, which may be in the middle of a job."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        if in_the_middle:
            process.send_signal(signal.SIGINT)  # the driver kills the child that it waits for
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def file(self, name: str) -> str:
        assert self._folder is not None, "use the runner in a with statement"
        return os.path.join(self._folder, name)  # removed when the runner is closed

    def run(self, job: Job) -> Ran:
        """Run one job. Never raises because of the program: the result may be only that it took too long or
        died. A KeyboardInterrupt says that the driver was interrupted before it could run anything."""
        self.runs += 1
        answer = self.file(f"answer-{self.runs}")
        wanted = (job.program.root or root_of(job.program.script), os.getcwd())
        if self._copied_for != wanted:
            self._copied_for, self.copy = wanted, copy_for(wanted[0], self.file("copies"))
            self._filler = Filler(self.copy)
        self._filler.fill(job.texts)
        process = self._driver()
        at = Surroundings(os.getcwd(), self.copy, answer, self.timeout, self.seconds_to_end, self._input)
        job = replace(job, at=at)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(pickle.dumps(job).hex() + "\n")
            process.stdin.flush()
            line = process.stdout.readline().strip()
        except BrokenPipeError:
            line = ""
        except BaseException:
            # Otherwise its answer would be taken for the next run's (tests/repair/test_how_far.py).
            self._end(in_the_middle=True)
            raise
        so_far = f"{answer}.so-far"
        if line == "timeout" and os.path.exists(so_far):
            answer, line = so_far, "done"
        if line != "done":
            self.reads = None
        if line == "timeout":
            return Ran(Ended.TIMEOUT, error=f"no end after {self.timeout:g} seconds", seconds=self.timeout)
        if not line:
            self._process = None
            process.communicate()  # wait for its end and close the pipes
            if process.returncode == INTERRUPTED:
                raise KeyboardInterrupt
            return Ran(Ended.DIED, error="its process ended before it began (can it import torch?)")
        if line != "done" or not os.path.exists(answer):
            return Ran(Ended.DIED, error=f"the process ended {line.replace('done', 'with exit code 0')}")
        with open(answer, "rb") as file:
            ran: Ran = pickle.load(file)
        if ran.reads is None:
            self.reads = None
        elif self.reads is not None:
            apart = (self.file(""), "/proc/", "/dev/")
            self.reads |= {path for path in ran.reads if not path.startswith(apart)}
        for name in glob.glob(f"{glob.escape(self.file('answer-'))}*"):
            os.unlink(name)
        return ran

    @property
    def environment(self) -> dict[str, str]:
        paths = [path for path in (os.environ.get("PYTHONPATH"), os.path.dirname(PACKAGE)) if path]
        # All runs must iterate sets of strings in the same order.
        return {"PYTHONHASHSEED": "0", **os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def _driver(self) -> subprocess.Popen[str]:
        """Return the driver process, started if there is none."""
        if self._process is None:
            with _interrupts_wait():
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "unclobber.repair._driver"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    pass_fds=[at for at in [self._input] if at >= 0],
                    env=self.environment,
                )
        return self._process


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Block Ctrl-C to the end of the block, and in a process started inside it until that can end quietly."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
