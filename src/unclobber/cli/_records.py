"""What the processes of a run leave for each other: a directory with a few files for each of them.

``N.alive`` is locked as long as process N lives: the kernel lets go of the lock however it dies, and
children don't inherit it. ``N.findings`` grows by one pickle a finding, ``N.end`` is the process's whole
report, ``N.who`` says who it is where the number alone doesn't. The directory is this user's alone, so
what lies in it can be unpickled.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ..model import Finding, Report
from ._program import ProgramEnd

State = Literal["absent", "running", "ended", "died"]


@dataclass(frozen=True)
class ProcessRecord:
    """What is known of one process."""

    number: int
    """Which one it is; a rank's number is its rank."""
    state: State
    report: Report | None = None
    """Its own, complete; None unless it has ended."""
    ending: ProgramEnd | None = None
    so_far: tuple[Finding, ...] = ()
    """What it has found, as far as it was written down."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.so_far if self.report is None else self.report.findings


class Folder:
    """The directory of a run, seen by anybody."""

    def __init__(self, path: str) -> None:
        self.path = path

    @contextlib.contextmanager
    def door(self) -> Iterator[None]:
        """One process at a time."""
        door = os.open(os.path.join(self.path, "door"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _locked(door, wait=True)
            yield
        finally:
            os.close(door)

    def numbers(self) -> tuple[int, ...]:
        """Those that have been here.

        Raises:
            FileNotFoundError: Nobody has, or the directory was removed.
        """
        names = [name.partition(".") for name in os.listdir(self.path)]
        found = (int(number) for number, _, kind in names if kind == "alive" and number.isdecimal())
        return tuple(sorted(found))

    def state(self, number: int) -> State:
        """How a process stands."""
        if os.path.exists(self._file(number, "end")):
            return "ended"
        if self.alive(number):
            return "running"
        if os.path.exists(self._file(number, "end")):  # it was just about to
            return "ended"
        return "died" if os.path.exists(self._file(number, "alive")) else "absent"

    def alive(self, number: int) -> bool:
        """Whether a process lives."""
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
        """All that a process has left."""
        state = self.state(number)
        report, ending = self._get(self._file(number, "end")) or (None, None)
        return ProcessRecord(number, state, report, ending, tuple(self._stream(number)))

    def who(self, number: int) -> Any:
        """What a process has said of itself; None if nothing."""
        return self._get(self._file(number, "who"))

    def told(self) -> dict[int, int] | None:
        """How many findings of each rank the last report had; None where there was none yet."""
        told: dict[int, int] | None = self._get(os.path.join(self.path, "told"))
        return told

    def tell(self, told: dict[int, int]) -> None:
        self._put(os.path.join(self.path, "told"), told)

    def remove(self) -> None:
        """Nothing is left to be told."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _stream(self, number: int) -> Iterator[Finding]:
        with contextlib.suppress(FileNotFoundError), open(self._file(number, "findings"), "rb") as stream:
            # The last one may be cut off: its process died while it wrote.
            with contextlib.suppress(EOFError, pickle.UnpicklingError):
                while True:
                    yield pickle.load(stream)

    def _put(self, path: str, value: Any) -> None:
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
    """The directory of a run, seen by one of its processes.

    Args:
        path: The directory; it is made if it isn't there.
        number: Which process this is; the lowest one that nobody has had if None.
    Raises:
        OSError: It can't be made or is somebody else's.
        BlockingIOError: This number has a living process already: we were started by it.
    """

    def __init__(self, path: str, number: int | None = None) -> None:
        super().__init__(path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o700)
        found = os.lstat(self.path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(f"{self.path} is somebody else's")
        self._process = os.getpid()
        self.number, self._lock = self._opened(number)
        try:
            _locked(self._lock)
        except OSError:
            os.close(self._lock)
            raise
        # Left by an earlier process of this rank, whose run went on with others in its place.
        for kind in ("findings", "end"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._file(self.number, kind))

    def _opened(self, number: int | None) -> tuple[int, int]:
        if number is not None:
            return number, os.open(self._file(number, "alive"), os.O_RDWR | os.O_CREAT, 0o600)
        for free in itertools.count(1):
            with contextlib.suppress(FileExistsError):
                return free, os.open(self._file(free, "alive"), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        raise AssertionError("there is always another number")

    def alive(self, number: int) -> bool:
        # Closing a second descriptor of our own file would let go of its lock.
        return number == self.number or super().alive(number)

    def introduce(self, who: object) -> None:
        """Say who this process is."""
        self._put(self._file(self.number, "who"), who)

    def found(self, finding: Finding) -> None:
        """Write a finding down."""
        if os.getpid() != self._process:
            return  # a forked child's; it is not this process
        with open(self._file(self.number, "findings"), "ab") as stream:
            stream.write(pickle.dumps(finding))

    def end(self, report: Report, ending: ProgramEnd) -> None:
        """Say that this process's program has ended."""
        self._put(self._file(self.number, "end"), (report, ending))


def path_of(run: str) -> str:
    """Where the ranks of a run meet: a name that no other user's run has."""
    return os.path.join(tempfile.gettempdir(), f"unclobber-{os.getuid()}-{run}")


def _locked(descriptor: int, *, wait: bool = False) -> None:
    import fcntl

    fcntl.lockf(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
