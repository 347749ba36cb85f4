"""Who reports, and when: the lowest rank at its end, or the last one to end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable

from ...model import Finding, Report
from ...report import summary_line
from .._output import usable, write_text
from .._program import ProgramEnd
from .._records import ProcessRecord, Records, path_of
from ._merge import merge
from ._termination import Termination
from ._world import World

_AFTER_A_FAILURE = 3.0
"""Seconds that a rank waits for the others after its program failed: they meet the same error, or hang."""
_AFTER_SUCCESS = 30.0
"""Seconds that the reporting rank waits for the others after its program went well."""
_AFTER_SIGTERM = 2.0
"""Seconds that it waits when it is told to end; ``torchrun`` kills after thirty."""
_FOR_EVER = float("inf")
_PAUSE = 0.02


class Ranks:
    """This process among the ranks of a run."""

    def __init__(self, world: World, records: Records) -> None:
        self.world = world
        self._records = records
        self._hurry = threading.Event()
        self._telling = threading.Lock()

    @classmethod
    def join(cls) -> Ranks | None:
        """None for a process that is alone, or can't meet the others: it reports by itself."""
        world = World.of(os.environ)
        if world is None:
            return None
        try:
            return cls(world, Records(path_of(world.run), world.rank))
        except (ImportError, AttributeError, BlockingIOError):  # no POSIX, or started by a rank
            return None
        except OSError as error:
            warnings.warn(f"unclobber reports each rank by itself: {error}", RuntimeWarning, stacklevel=2)
            return None

    def found(self, finding: Finding) -> None:
        """Write down what this rank found, as it happens."""
        with contextlib.suppress(OSError):  # a full disk must not end the program; the end tries again
            self._records.found(finding)

    def tell_before_sigterm(self, tell: Callable[[ProgramEnd], object]) -> None:
        """Until the program has ended, SIGTERM leads to ``tell``; after that it only ends the waiting."""

        def terminated() -> bool:
            self._hurry.set()
            if not self._telling.acquire(blocking=False):
                return False
            tell(ProgramEnd(128 + signal.SIGTERM, failed=True, terminated=True))
            return True

        self._termination = Termination(terminated)
        self._termination.install()

    def ended(self, stopped_by: Iterable[Finding]) -> None:
        """The program has come to its end; ``stopped_by`` are the findings that made it, to be named.

        The report may be another rank's, so each one says in a line why it stopped.
        """
        self._telling.acquire()
        for finding in stopped_by:
            line = summary_line(finding).removeprefix("SUMMARY: ")
            if (stream := usable(sys.stderr, sys.__stderr__)) is not None:
                # In one piece: `print` writes the line's end by itself, and the ranks share a terminal.
                write_text(stream, f"[rank{self.world.rank}]: stopped by {line}\n")

    def gather(self, report: Report, ending: ProgramEnd) -> Report | None:
        """The report of all ranks if it is this rank's to tell, else None.

        Args:
            report: This rank's own, complete.
            ending: How its program ended.
        """
        records = self._records
        try:
            with records.door():
                records.end(report, ending)
        except OSError:  # the directory is gone or full: better several reports than none
            return report
        try:
            with contextlib.suppress(KeyboardInterrupt):  # it ends the waiting, not the report
                self._wait(self._patience(report, ending))
            with records.door():
                if self._is_mine():
                    return self._whole(report)
                if records.told() is not None:
                    self._tidy(self._all())
        except FileNotFoundError:  # told and removed by another
            return None
        return None  # another's to tell, or told already

    def _patience(self, report: Report, ending: ProgramEnd) -> float:
        if report.exit_code and not ending.exit_code and self.world.elastic:
            # The program went well and the code is ours: at once, torchrun would end the other ranks.
            return _FOR_EVER
        if ending.refused:
            return _AFTER_A_FAILURE
        if self.world.rank != self._reporter():
            return 0
        return _AFTER_A_FAILURE if ending.exit_code else _AFTER_SUCCESS

    def _reporter(self) -> int:
        return min([self.world.rank, *self.world.expected, *self._records.numbers()])

    def _others(self) -> list[int]:
        ranks = self.world.expected or self._records.numbers()
        return [rank for rank in ranks if rank != self.world.rank]

    def _wait(self, seconds: float) -> None:
        """Until all others have ended, or for so long."""
        start = time.monotonic()
        while os.path.isdir(self._records.path):
            states = {self._records.state(rank) for rank in self._others()}
            if not states & {"absent", "running"}:
                return
            most = seconds if "running" in states else min(seconds, _AFTER_SUCCESS)
            if self._hurry.is_set():
                most = min(most, _AFTER_SIGTERM)
            if time.monotonic() - start >= most:
                return
            time.sleep(_PAUSE)

    def _is_mine(self) -> bool:
        reporter, told = self._reporter(), self._records.told()
        if reporter == self.world.rank:
            return True
        records = self._records
        waits = records.state(reporter) == "ended" and records.alive(reporter) and told is None
        if waits or any(records.state(rank) == "running" for rank in self._others()):
            return False
        counts = {record.number: len(record.findings) for record in self._all()}
        return told is None or any(count > told.get(rank, 0) for rank, count in counts.items())

    def _all(self) -> list[ProcessRecord]:
        ranks = sorted({self.world.rank, *self.world.expected, *self._records.numbers()})
        return [self._records.read(rank) for rank in ranks]

    def _whole(self, own: Report) -> Report:
        records = self._all()
        self._records.tell({record.number: len(record.findings) for record in records})
        self._tidy(records)
        return merge(records, torch_version=own.torch_version, command=own.command)

    def _tidy(self, records: list[ProcessRecord]) -> None:
        """Nothing more will come once all have ended."""
        if all(record.state in ("ended", "died") for record in records):
            self._records.remove()
