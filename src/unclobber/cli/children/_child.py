"""The child's side: a session as soon as torch is there, and a record of what it finds.

What only a child with a session needs, or one that fails, is imported there: most children never see torch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from ._settings import Settings, following
from ._torch_import import when_torch_is_imported

if TYPE_CHECKING:
    from ...model import Finding
    from ...session.session import Session
    from .._records import Records

_TASKS = (
    ("multiprocessing.pool", "ExceptionWithTraceback"),
    ("concurrent.futures.process", "_ExceptionWithTraceback"),
)
"""What a pool's worker wraps the exception of a task in, to send it to whoever asked for the result."""


class Who(NamedTuple):
    """A child as ``multiprocessing`` knows it."""

    name: str
    pid: int
    daemon: bool


class Child:
    """This process, started by a watched program.

    Args:
        settings: The program's.
        process: The object that ``multiprocessing`` has for it.
    """

    def __init__(self, settings: Settings, process: Any) -> None:
        self._settings = settings
        self._process = process
        self._pid = os.getpid()
        self._session: Session | None = None
        self._entered = False
        self._records: Records | None = None
        self._stopped = False
        """Whether a finding has ended it."""

    # --- begin ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Before the program's function runs: watch now, or when torch gets imported."""
        inherited, following.session = following.session, None
        self._process.run = partial(_run_as_child, self, self._process.run)
        if inherited is not None:
            inherited.reset_in_child()
            self._join(inherited)
        elif "torch" in sys.modules:
            self._watch()
        else:
            when_torch_is_imported(self._watch)

    def _watch(self) -> None:
        from ...session.session import Session
        from .._suppression import RunSuppression

        settings = self._settings
        session = Session(
            "guard" if settings.policy == "guard" else "watch",
            strict=settings.strict,
            fingerprint=settings.fingerprint,
            command=settings.command,
            warn=False,
            suppression=RunSuppression(*settings.suppression).suppression(),
        )
        session.__enter__()
        self._entered = True
        self._join(session)

    def _join(self, session: Session) -> None:
        """Leave a record of what the session finds."""
        import warnings

        from .._records import Records

        self._session = following.session = session
        try:
            self._records = Records(self._settings.folder)
            self._records.introduce(
                Who(self._process.name, self._pid, bool(self._process._config.get("daemon")))
            )
        except (ImportError, AttributeError):  # no POSIX
            self._records = None
        except OSError as error:
            warnings.warn(
                f"what unclobber finds in process {self._process.name} is not told: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
        session.on_finding = self._heard
        for module, name in _TASKS:
            if module in sys.modules:
                self._look_at_tasks(sys.modules[module], name)

    def _is_here(self) -> bool:
        """Whether this is the child, and not one that it has forked by hand and that runs on in its place."""
        return os.getpid() == self._pid

    def _heard(self, finding: Finding) -> None:
        if self._records is not None:
            try:
                self._records.found(finding)
            except OSError:  # the run is over, or the disk is full: the program goes on
                return

    def _look_at_tasks(self, module: Any, name: str) -> None:
        """See what ends a pool's tasks: each error is sent to the pool's owner, and the child goes on."""
        wrap: Callable[..., Any] = getattr(module, name)

        def wrap_seen(error: BaseException, trace: TracebackType | None) -> Any:
            if self._is_here() and self._session is not None:
                self._session.finding_for(error)
            return wrap(error, trace)

        setattr(module, name, wrap_seen)

    # --- end ------------------------------------------------------------------------------------

    def is_stopped_by(self, error: BaseException) -> bool:
        """Whether a finding ends this child, and a line has said so instead of the error's traceback."""
        finding = None if self._session is None else self._session.finding_for(error)
        self._stopped = finding is not None
        if finding is None or self._records is None or not self._settings.told_beside:
            return False
        from ...report import summary_line

        line = summary_line(finding).removeprefix("SUMMARY: ")
        _say(f"Process {self._process.name}: stopped by {line}\n")
        return True

    def show(self, error: BaseException) -> None:
        """Show an uncaught exception as ``multiprocessing`` does, without a frame of ours."""
        import traceback

        from .._tracebacks import without_our_frames

        without_our_frames(error)
        caller = sys._getframe(2)  # `_bootstrap` of multiprocessing
        shown = TracebackType(error.__traceback__, caller, caller.f_lasti, caller.f_lineno)
        text = "".join(traceback.format_exception(type(error), error, shown))
        _say(f"Process {self._process.name}:\n{text}")

    def end(self, code: int) -> None:
        """The child is about to exit with ``code``."""
        session, records = self._session, self._records
        if session is None or not self._is_here():
            return
        if self._entered:
            session.__exit__(None, None, None)
        if records is None:
            return
        import contextlib

        from .._program import ProgramEnd

        failed = code != 0 and not self._stopped
        report = session.report(exit_code=code, script_failed=failed)
        with contextlib.suppress(OSError):  # the run is over
            records.end(report, ProgramEnd(code, failed=failed, refused=self._stopped))
        if not _lives(self._settings.root):
            with contextlib.suppress(FileNotFoundError), records.door():
                if not any(records.alive(other) for other in records.numbers() if other != records.number):
                    records.remove()  # nobody is left to read it


def _run_as_child(child: Child, run: Callable[[], None]) -> None:
    """Run the program's part of a child; `_sites` knows this function by its name."""
    try:
        run()
    except SystemExit as exit_:
        # What torch.multiprocessing.spawn does when the function that it was given fails.
        if exit_.__context__ is not None:
            child.is_stopped_by(exit_.__context__)
        raise
    except BaseException as error:
        if not child.is_stopped_by(error):
            child.show(error)
        raise SystemExit(1) from None


def _say(text: str) -> None:
    from .._output import usable, write_text

    if (stream := usable(sys.stderr, sys.__stderr__)) is not None:
        write_text(stream, text)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
