"""Files that the processes of a run leave for each other, in one directory.

``N.alive`` is locked as long as process N lives: the kernel lets go of the lock however it dies, and
children don't inherit it. ``N.findings`` grows by one pickle a finding, ``N.end`` is the process's whole
report. `N.who` holds a child's name and process id, which its number doesn't say. Only this user can
write to the directory, so its files can be unpickled.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ..model import Finding, Outcome, Report
from ._program import ProgramEnd

State = Literal["absent", "running", "ended", "died"]


@dataclass(frozen=True)
class ProcessRecord:
    """The record of one process, as far as it was written."""

    number: int  # number of the process in its run; for a rank, its rank
    state: State
    report: Report | None = None  # the complete report; None unless the process has ended
    ending: ProgramEnd | None = None
    so_far: tuple[Finding, ...] = ()  # findings that the process wrote before its end

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.so_far if self.report is None else self.report.findings

    @property
    def exit_code(self) -> int | None:
        return None if self.report is None else self.report.exit_code

    @property
    def end(self) -> Literal["absent", "running", "ended", "died", "failed", "terminated"]:
        if self.ending is None:
            return self.state
        return "terminated" if self.ending.terminated else "failed" if self.ending.failed else "ended"

    def outcome(self, *, failed: bool) -> Outcome | None:  # failed: for reasons of its own
        if self.report is not None:
            return self.report.outcome
        known = Report("clean", self.findings).judged(failed=failed).outcome
        return None if known == "clean" else known


class Folder:
    """The directory of a run, as any process sees it."""

    def __init__(self, path: str) -> None:
        self.path = path

    @contextlib.contextmanager
    def door(self) -> Iterator[None]:  # one process at a time decides on the report
        door = os.open(os.path.join(self.path, "door"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _locked(door, wait=True)
            yield
        finally:
            os.close(door)

    def numbers(self) -> tuple[int, ...]:
        names = [name.partition(".") for name in os.listdir(self.path)]
        known = (int(number) for number, _, kind in names if kind == "alive" and number.isdecimal())
        return tuple(sorted(known))

    def state(self, number: int) -> State:
        """Return whether a process is absent, running, ended (its report is written) or died."""
        if os.path.exists(self._file(number, "end")):
            return "ended"
        if self.alive(number):
            return "running"
        # Looked for twice, because the process may write its end after the first look and then die.
        if os.path.exists(self._file(number, "end")):
            return "ended"
        return "died" if os.path.exists(self._file(number, "alive")) else "absent"

    def alive(self, number: int) -> bool:
        """Return whether a process holds the lock of its ``alive`` file."""
        try:
            descriptor = os.open(self._file(number, "alive"), os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            _locked(descriptor)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    def read(self, number: int) -> ProcessRecord:
        state = self.state(number)
        report, ending = self._get(self._file(number, "end")) or (None, None)
        return ProcessRecord(number, state, report, ending, tuple(self._stream(number)))

    def identity(self, number: int) -> Any:
        return self._get(self._file(number, "who"))

    def reported(self) -> dict[int, int] | None:
        reported: dict[int, int] | None = self._get(os.path.join(self.path, "told"))
        return reported  # findings by rank in the last report; None if there was none yet

    def note_reported(self, reported: dict[int, int]) -> None:
        self._put(os.path.join(self.path, "told"), reported)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _stream(self, number: int) -> Iterator[Finding]:
        with contextlib.suppress(FileNotFoundError), open(self._file(number, "findings"), "rb") as stream:
            # The last pickle may be cut off, because its process died while it wrote.
            with contextlib.suppress(EOFError, pickle.UnpicklingError):
                while True:
                    yield pickle.load(stream)

    def _put(self, path: str, value: Any) -> None:
        # Written under another name and renamed, because other processes may read the file meanwhile.
        partial = f"{path}.{os.getpid()}"
        with open(partial, "wb") as stream:
            pickle.dump(value, stream)
        os.replace(partial, path)

    def _get(self, path: str) -> Any:
        try:
            with open(path, "rb") as stream:
                return pickle.load(stream)
        except FileNotFoundError:
            return None

    def _file(self, number: int, kind: str) -> str:
        return os.path.join(self.path, f"{number}.{kind}")


class Records(Folder):
    """The directory of a run, as one of its own processes sees it.

    Args:
        path: The directory; created if it isn't there.
        number: Number of this process; the lowest unused one if None.
    Raises:
        OSError: It can't be created or belongs to another user.
        BlockingIOError: A living process has this number; it started this one.
    """

    def __init__(self, path: str, number: int | None = None) -> None:
        """Create the directory, take a number and its lock, and delete an earlier process's files."""
        super().__init__(path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o700)
        status = os.lstat(self.path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            # A folder that another user made under this name could hold that user's pickles.
            raise PermissionError(f"{self.path} is somebody else's")
        self._process = os.getpid()
        self.number, self._lock = self._opened(number)
        try:
            _locked(self._lock)
        except OSError:
            os.close(self._lock)
            raise
        # Left by an earlier process of this rank in the same run: its findings would be merged as this one's.
        for kind in ("findings", "end"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._file(self.number, kind))

    def _opened(self, number: int | None) -> tuple[int, int]:
        """Return the number and an open descriptor of its ``alive`` file."""
        if number is not None:
            return number, os.open(self._file(number, "alive"), os.O_RDWR | os.O_CREAT, 0o600)
        # O_EXCL, because children start at the same time: a number belongs to whichever creates its file.
        for free in itertools.count(1):
            with contextlib.suppress(FileExistsError):
                return free, os.open(self._file(free, "alive"), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        raise AssertionError("there is always another number")

    def alive(self, number: int) -> bool:
        # POSIX drops a process's lock when it closes any descriptor of the file, so its own is never opened
        # again.
        return number == self.number or super().alive(number)

    def introduce(self, identity: object) -> None:
        self._put(self._file(self.number, "who"), identity)

    def record(self, finding: Finding) -> None:
        if os.getpid() != self._process:
            return  # a child that was forked inherits this object, but has a record of its own or none
        # The disk is full, or the run is over: the program goes on, and `end` writes the whole report again.
        with contextlib.suppress(OSError), open(self._file(self.number, "findings"), "ab") as stream:
            stream.write(pickle.dumps(finding))

    def end(self, report: Report, ending: ProgramEnd) -> None:
        self._put(self._file(self.number, "end"), (report, ending))


def _locked(descriptor: int, *, wait: bool = False) -> None:
    # Imported here, because Windows has none and a command that meets no other process needs none.
    import fcntl

    fcntl.lockf(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
