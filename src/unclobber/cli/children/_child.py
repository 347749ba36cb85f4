"""The child's side: a session as soon as torch is imported, and a record of its findings.

Modules for a session or a failure are imported in functions, because most children never import torch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from ...session import TorchFinder
from ._settings import Settings, following

if TYPE_CHECKING:
    from ...session import Session
    from .._records import Records

_TASKS = (
    ("multiprocessing.pool", "ExceptionWithTraceback"),
    ("concurrent.futures.process", "_ExceptionWithTraceback"),
)
"""Classes in which a pool's worker wraps a task's exception to send it to the caller."""


class ProcessIdentity(NamedTuple):
    """A child as ``multiprocessing`` knows it."""

    name: str
    pid: int
    daemon: bool


class Child:
    """This process, started by a watched program.

    Args:
        settings: The program's.
        process: The ``multiprocessing`` object of this process.
    """

    def __init__(self, settings: Settings, process: Any) -> None:
        """Remember the settings; nothing is watched before `begin`."""
        self._settings = settings
        self._process = process
        self._pid = os.getpid()
        self._session: Session | None = None
        self._entered = False
        self._records: Records | None = None
        self._stopped = False  # whether a finding has ended this child

    # --- begin ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start to watch, now or when torch gets imported, before the program's function runs."""
        # A forked child inherits its parent's entered session with its hooks, so it goes on with that one.
        inherited, following.session = following.session, None
        self._process.run = partial(_run_as_child, self, self._process.run)
        if inherited is not None:
            inherited.reset_in_child()
            self._join(inherited)
        else:
            TorchFinder(self._watch).install()

    def _watch(self) -> Session:
        """Enter a new session with the settings of the program."""
        import pickle

        session: Session = pickle.loads(self._settings.suppression).session(self._settings.command)
        session.__enter__()
        self._entered = True
        self._join(session)
        return session

    def _join(self, session: Session) -> None:
        """Record the session's findings in the run's directory, and its report at the end."""
        import warnings

        from .._records import Records

        self._session = following.session = session
        try:
            self._records = Records(self._settings.folder)
            self._records.introduce(
                ProcessIdentity(self._process.name, self._pid, bool(self._process._config.get("daemon")))
            )
        except (ImportError, AttributeError):  # no POSIX: no fcntl, no getuid
            self._records = None
        except OSError as error:
            warnings.warn(
                f"what unclobber finds in process {self._process.name} is not told: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
        session.on_finding = None if self._records is None else self._records.record
        for module, name in _TASKS:
            if module in sys.modules:
                self._look_at_tasks(sys.modules[module], name)

    def _is_here(self) -> bool:
        return os.getpid() == self._pid  # not a process that it forked by hand

    def _look_at_tasks(self, module: Any, name: str) -> None:
        """Match the exceptions of a pool's tasks with findings. A task's exception is sent to the pool's
        owner and the child goes on."""
        wrap: Callable[..., Any] = getattr(module, name)

        def wrap_seen(error: BaseException, trace: TracebackType | None) -> Any:
            if self._is_here() and self._session is not None:
                self._session.finding_for(error)
            return wrap(error, trace)

        setattr(module, name, wrap_seen)

    # --- end ------------------------------------------------------------------------------------

    def is_stopped_by(self, error: BaseException) -> bool:
        """Return whether a finding ends this child, and a line on stderr replaced its traceback."""
        finding = None if self._session is None else self._session.finding_for(error)
        self._stopped = finding is not None
        if finding is None or self._records is None or not self._settings.text_on_stderr:
            return False
        from ...report import line_of
        from .._output import write_to_stderr

        line = line_of(finding).removeprefix("SUMMARY: ")
        write_to_stderr(f"Process {self._process.name}: stopped by {line}\n")
        return True

    def show(self, error: BaseException) -> None:
        """Print an uncaught exception as ``multiprocessing`` does, without unclobber's frames."""
        import traceback

        from .._output import write_to_stderr
        from .._tracebacks import without_own_frames

        without_own_frames(error)
        # multiprocessing prints its own `_bootstrap` as the outermost frame, which the raised traceback here
        # lacks.
        caller = sys._getframe(2)  # `_bootstrap` of multiprocessing
        shown = TracebackType(error.__traceback__, caller, caller.f_lasti, caller.f_lineno)
        text = "".join(traceback.format_exception(type(error), error, shown))
        write_to_stderr(f"Process {self._process.name}:\n{text}")

    def end(self, code: int) -> None:
        """Write this child's report, as it is about to exit with ``code``."""
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
        # The reporting process reads and removes the records; if it is gone, the last child removes them.
        if not _lives(self._settings.root):
            with contextlib.suppress(FileNotFoundError), records.door():
                if not any(records.alive(other) for other in records.numbers() if other != records.number):
                    records.remove()  # no living process of the run will read it


def _run_as_child(child: Child, run: Callable[[], None]) -> None:
    """Run the program's function in a child. `source.sites` ends user code at this function, by its name."""
    try:
        run()
    except SystemExit as exit_:
        # torch.multiprocessing.spawn catches the function's exception and exits with 1 in its handler.
        if exit_.__context__ is not None:
            child.is_stopped_by(exit_.__context__)
        raise
    except BaseException as error:
        if not child.is_stopped_by(error):
            child.show(error)
        raise SystemExit(1) from None


def _lives(process: int) -> bool:
    """Return whether a process with this id runs, for any user."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
