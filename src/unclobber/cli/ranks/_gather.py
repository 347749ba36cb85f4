"""The choice of the rank that reports: the lowest one at its end, or the last one to end."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from time import monotonic, sleep

from ...model import Finding, RankEnd, Report
from ...report import line_of
from .._merge import Part, merge
from .._output import write_to_stderr
from .._program import ProgramEnd
from .._records import ProcessRecord, Records
from ._machines import WORST_FIRST, Machines
from ._termination import Termination
from ._world import World

_AFTER_A_FAILURE = 3.0  # seconds that a failed rank waits for the others, which meet the same error or hang
_AFTER_SUCCESS = 30.0  # seconds that the reporting rank waits for the other ranks after its program succeeded
_AFTER_SIGTERM = 2.0  # seconds that a rank waits after SIGTERM; `torchrun` kills after thirty
_FOR_EVER = float("inf")
# Polled: a killed process releases its lock and sends nothing, and waiting for one lock would miss the
# others.
_PAUSE = 0.02


class Ranks:
    """This process among the ranks of a run."""

    def __init__(self, world: World, records: Records, machines: Machines | None = None) -> None:
        self.world = world
        self.records = records
        self._machines = machines
        self._hurry = threading.Event()
        self._reporting = threading.Lock()

    @classmethod
    def join(cls) -> Ranks | None:
        """Return the ranks of this run; None if this process has no others, or can't meet them."""
        world = World.of(os.environ)
        if world is None:
            return None
        try:
            # With the user's id, so that no other user's run has this name.
            path = os.path.join(tempfile.gettempdir(), f"unclobber-{os.getuid()}-{world.run}")
            return cls(world, Records(path, world.rank), Machines.of(os.environ))
        # no POSIX, or a child process of a rank, which inherits RANK
        except (ImportError, AttributeError, BlockingIOError):
            return None
        except OSError as error:
            warnings.warn(f"unclobber reports each rank by itself: {error}", RuntimeWarning, stacklevel=2)
            return None

    def report_before_sigterm(self, report: Callable[[ProgramEnd], object]) -> None:
        """Call `report` at SIGTERM until the program has ended; later, SIGTERM only shortens the wait."""

        def terminated() -> bool:
            """Report, unless the program has ended; return whether the process is to end now."""
            self._hurry.set()
            # Not blocking: `ended` holds the lock for good, and a blocked thread would leave SIGTERM without
            # effect.
            if not self._reporting.acquire(blocking=False):
                return False
            report(ProgramEnd(128 + signal.SIGTERM, failed=True, terminated=True))
            return True

        Termination(terminated).install()

    def ended(self, stopped_by: Iterable[Finding]) -> None:
        # Each rank says why it stopped, because another one may print the report.
        self._reporting.acquire()
        for finding in stopped_by:
            line = line_of(finding).removeprefix("SUMMARY: ")
            # One write, because `print` writes the newline separately and the ranks share a terminal.
            write_to_stderr(f"[rank{self.world.rank}]: stopped by {line}\n")

    def gather(self, report: Report, ending: ProgramEnd) -> Report | None:
        """Return the report of all ranks if this rank is to report, else None."""
        records = self.records
        try:
            with records.door():
                records.end(report, ending)
        except OSError:  # without the directory, several reports are better than none
            return report
        try:
            with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the wait, not the report
                self._wait(self._patience(report, ending))
            with records.door():
                mine = self._is_mine()
                whole = self._whole(report) if mine else None
                if not mine and records.reported() is not None:
                    self._tidy(self._all())
        except FileNotFoundError:  # another rank reported and removed the directory
            return None
        if whole is None or self._machines is None:
            return whole  # None: another rank reports, or has reported
        failed = ending.exit_code or self._hurry.is_set()
        return self._machines.meet(whole, _AFTER_A_FAILURE if failed else _AFTER_SUCCESS)

    def _patience(self, report: Report, ending: ProgramEnd) -> float:
        """Return the seconds that this rank waits for the other ranks."""
        if report.exit_code and not ending.exit_code and self.world.elastic:
            # The program succeeded and only findings make the code 1: torchrun ends all ranks at the first
            # one that exits so.
            return _FOR_EVER
        if ending.refused:
            return _AFTER_A_FAILURE
        if self.world.rank != self._reporter():
            return 0
        return _AFTER_A_FAILURE if ending.exit_code else _AFTER_SUCCESS

    def _reporter(self) -> int:
        return min([self.world.rank, *self.world.expected, *self.records.numbers()])

    def _others(self) -> list[int]:
        ranks = self.world.expected or self.records.numbers()
        return [rank for rank in ranks if rank != self.world.rank]

    def _wait(self, seconds: float) -> None:
        """Wait until all other ranks have ended, for at most `seconds`."""
        start = monotonic()
        while os.path.isdir(self.records.path):
            states = {self.records.state(rank) for rank in self._others()}
            if not states & {"absent", "running"}:
                return
            # Ranks that never appeared may never start, so they get less time than running ones.
            most = seconds if "running" in states else min(seconds, _AFTER_SUCCESS)
            if self._hurry.is_set():
                most = min(most, _AFTER_SIGTERM)
            if monotonic() - start >= most:
                return
            sleep(_PAUSE)

    def _is_mine(self) -> bool:
        """Return whether this rank reports: it is the lowest one, or that one is gone and this one is the
        last or knows more findings."""
        reporter, reported = self._reporter(), self.records.reported()
        if reporter == self.world.rank:
            return True
        records = self.records
        # Ended and still alive means that the reporter waits for other ranks in `_wait` and will report.
        waits = records.state(reporter) == "ended" and records.alive(reporter) and reported is None
        if waits or any(records.state(rank) == "running" for rank in self._others()):
            return False
        counts = {record.number: len(record.findings) for record in self._all()}
        return reported is None or any(count > reported.get(rank, 0) for rank, count in counts.items())

    def _all(self) -> list[ProcessRecord]:
        # Expected ranks are listed too, because one that died before its session began left no file.
        ranks = sorted({self.world.rank, *self.world.expected, *self.records.numbers()})
        return [self.records.read(rank) for rank in ranks]

    def _whole(self, own: Report) -> Report:
        records = self._all()
        self.records.note_reported({record.number: len(record.findings) for record in records})
        self._tidy(records)
        return merge_ranks(records, torch_version=own.torch_version, command=own.command)

    def _tidy(self, records: list[ProcessRecord]) -> None:
        if all(record.state in ("ended", "died") for record in records):
            self.records.remove()


def merge_ranks(records: Sequence[ProcessRecord], *, torch_version: str, command: tuple[str, ...]) -> Report:
    """Return one report of all ranks.

    The outcome is the worst one; the exit code is that of the lowest rank with another than 0, as a launcher
    exits.
    """
    # A killed rank leaves no report, and its launcher takes it for a failed one.
    outcomes = {record.number: record.outcome(failed=record.end == "died") for record in records}
    reports = [record.report for record in records if record.report is not None]
    ends = [RankEnd(r.number, r.end, r.exit_code, outcomes[r.number]) for r in records]
    return merge(
        Report(
            next((outcome for outcome in WORST_FIRST if outcome in outcomes.values()), "clean"),
            torch_version=torch_version,
            command=command,
            exit_code=next((report.exit_code for report in reports if report.exit_code), 0),
            ranks=tuple(ends),
        ),
        [Part(record.number, record.findings, record.report) for record in records],
        "ranks",
    )
