"""What the ranks of a run leave for each other: a directory with three files for each rank.

``N.alive`` is locked as long as the rank's process lives: the kernel lets go of the lock however it
dies, and children don't inherit it. ``N.findings`` grows by one pickle a finding, ``N.end`` is the
rank's whole report. The directory is this user's alone, so what lies in it can be unpickled.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from unclobber.model import Finding, Report

from .._program import Ending

State = Literal["absent", "running", "ended", "died"]


@dataclass(frozen=True)
class Record:
    """What is known of one rank."""

    rank: int
    state: State
    report: Report | None = None
    """Its own, complete; None unless it has ended."""
    ending: Ending | None = None
    so_far: tuple[Finding, ...] = ()
    """What it has found, as far as it was written down."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.so_far if self.report is None else self.report.findings


class Records:
    """The directory of a run, seen by one rank.

    Raises:
        OSError: It can't be made or is somebody else's.
        BlockingIOError: This rank has a living process already: we were started by it.
    """

    def __init__(self, run: str, rank: int) -> None:
        self.rank = rank
        self.path = os.path.join(tempfile.gettempdir(), f"unclobber-{os.getuid()}-{run}")
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o700)
        found = os.lstat(self.path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(f"{self.path} is somebody else's")
        self._process = os.getpid()
        self._lock = os.open(self._file(rank, "alive"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _locked(self._lock)
        except OSError:
            os.close(self._lock)
            raise
        # Left by an earlier process of this rank, whose run went on with others in its place.
        for kind in ("findings", "end"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._file(rank, kind))

    # --- our own --------------------------------------------------------------------------------

    def found(self, finding: Finding) -> None:
        """Write a finding down."""
        if os.getpid() != self._process:
            return  # a forked child's; it is not this rank
        with open(self._file(self.rank, "findings"), "ab") as stream:
            stream.write(pickle.dumps(finding))

    def end(self, report: Report, ending: Ending) -> None:
        """Say that this rank's program has ended."""
        self._put(self._file(self.rank, "end"), (report, ending))

    # --- everybody's ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def door(self) -> Iterator[None]:
        """One rank at a time."""
        door = os.open(os.path.join(self.path, "door"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _locked(door, wait=True)
            yield
        finally:
            os.close(door)

    def ranks(self) -> tuple[int, ...]:
        """Those that have been here."""
        names = [name.partition(".") for name in os.listdir(self.path)]
        return tuple(sorted(int(rank) for rank, _, kind in names if kind == "alive" and rank.isdecimal()))

    def state(self, rank: int) -> State:
        """How a rank stands."""
        if os.path.exists(self._file(rank, "end")):
            return "ended"
        if rank == self.rank or self.alive(rank):
            return "running"
        if os.path.exists(self._file(rank, "end")):  # it was just about to
            return "ended"
        return "died" if os.path.exists(self._file(rank, "alive")) else "absent"

    def alive(self, rank: int) -> bool:
        """Whether a rank's process lives."""
        try:
            descriptor = os.open(self._file(rank, "alive"), os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            _locked(descriptor)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    def read(self, rank: int) -> Record:
        """All that a rank has left."""
        state = self.state(rank)
        report, ending = self._get(self._file(rank, "end")) or (None, None)
        return Record(rank, state, report, ending, tuple(self._stream(rank)))

    def told(self) -> dict[int, int] | None:
        """How many findings of each rank the last report had; None where there was none yet."""
        told: dict[int, int] | None = self._get(os.path.join(self.path, "told"))
        return told

    def tell(self, told: dict[int, int]) -> None:
        self._put(os.path.join(self.path, "told"), told)

    def remove(self) -> None:
        """Nothing is left to be told."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _stream(self, rank: int) -> Iterator[Finding]:
        with contextlib.suppress(FileNotFoundError), open(self._file(rank, "findings"), "rb") as stream:
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

    def _file(self, rank: int, kind: str) -> str:
        return os.path.join(self.path, f"{rank}.{kind}")


def _locked(descriptor: int, *, wait: bool = False) -> None:
    import fcntl

    fcntl.lockf(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
