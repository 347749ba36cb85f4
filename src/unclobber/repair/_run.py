"""A run of the program in this process, with its standard input and its result."""

from __future__ import annotations

import atexit
import contextlib
import io
import multiprocessing.process
import os
import pickle
import random
import resource
import stat
import sys
import threading
import time
import traceback
from dataclasses import replace
from types import ModuleType

import torch

from ..model import Finding, Interpretation
from ..session import Session, Watching
from ..torch_internals.engine import engine
from . import _end_state, _interpretations, _overlay
from ._end_state import EndState, RunRecord, compare_end_states
from ._holders import Holders
from ._job import Comparison, Different, Ended, Job, Ran
from ._leftovers import Files
from ._recorder import Enough, Recorder, compare, compare_moved
from ._state import Living
from .project import Project

SEED = 0  # seed of every generator before the script starts; a script that sets seeds of its own overrides it


class Input(io.FileIO):
    """The standard input of one run: each run reads the bytes that were piped into the command.

    A pipe can be read once only. The first run that reads it copies it to a file, to its end, and later runs
    read the file; a script that never reads it leaves it alone, because it may be its shell's own. All reads
    are by ``readinto``.
    """

    read, readall = io.RawIOBase.read, io.RawIOBase.readall  # type: ignore[assignment]

    def __init__(self, descriptor: int, kept: str) -> None:
        """Put a file in the place of standard input: a pipe's copy, the command's own, or an empty one."""
        mode = 0 if descriptor < 0 else os.fstat(descriptor).st_mode
        own = f"/dev/fd/{descriptor}" if stat.S_ISREG(mode) else os.devnull
        again = kept if os.path.exists(kept) else own
        os.dup2(os.open(again, os.O_RDONLY), 0)
        super().__init__(0, closefd=False)
        self.is_read, self._pipe, self._kept = False, descriptor, kept
        self._waits = again == os.devnull and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
        self.is_given = self._waits or again != os.devnull

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read the next bytes, as ``io.RawIOBase`` says."""
        self.is_read = True
        if self._waits:
            with open(self._pipe, "rb", closefd=False) as pipe, open(self._kept, "wb") as file:
                file.write(pipe.read())
            os.dup2(os.open(self._kept, os.O_RDONLY), 0)
            self._waits = False
        return super().readinto(buffer)


class Run:
    """A run of the program in this process, with its comparison and its answer."""

    def __init__(self, job: Job, read: Input) -> None:
        """Load the reference, and prepare the session, the recorder and the audit hooks."""
        self.job, self.read = job, read
        self.reference: RunRecord | None = None
        if job.against is not None and os.path.exists(job.against.file):
            # written a moment ago by this very code in another child
            self.reference = torch.load(job.against.file, weights_only=False)
        self.project = Project.of(os.path.join(job.at.folder, job.program.script), job.program.root)
        self.before = frozenset(sys.modules) - {"__main__"}
        """Names of the modules that are loaded before the program begins: thousands, so none is looked at."""
        self.living = Living()
        policy = "watch" if job.interpretations is None else "guard"
        self.session = Session(policy, strict=True, warn=False)  # type: ignore[arg-type]
        self.recorder = Recorder(
            job.stop_after,
            cut=Interpretation.CUT in (job.interpretations or ()),
            after_each=self._after_backward,
            to_end=job.to_end,
        )
        self.holders = Holders(self.session, self.recorder.leaves)
        self.files = Files(job.at.copy, job.at.answer_to, job.since, all_written=job.to_end)
        self.ended, self.error = Ended.FINISHED, ""
        self.code = ""
        self.finding: Finding | None = None
        self.base = _peak()
        self.began = self.cpu_began = 0.0

    def perform(self) -> None:
        """Run the program, and write the answer."""
        job = self.job
        _overlay.install(job)
        Watching.proving = True
        self.began, self.cpu_began = time.perf_counter(), time.process_time()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.session)
            # Entering a session may probe torch with backward calls of its own.
            engine.subscribe(self.recorder)
            if job.probes:
                self.holders.install()
            _seed()
            settle = _interpretations.enter(job.interpretations or frozenset(), stack)
            sys.addaudithook(self.files)
            try:
                _overlay.run(job)
            except BaseException as failure:
                self._failed(failure)
            generators = _end_state.generators()
            if self.ended is not Ended.STOPPED:
                # Join the program's non-daemon threads, because `os._exit` skips the interpreter's shutdown.
                with contextlib.suppress(KeyboardInterrupt):
                    threading._shutdown()  # type: ignore[attr-defined]
        self.files.off = True
        ran = self._ran()
        whole = job.to_end and self.ended in (Ended.FINISHED, Ended.ERROR)
        for each in settle if whole else ():
            each()
        end_state = self._state_at_end(generators) if whole else None
        self._record(end_state)
        times = () if end_state is None else end_state.times
        comparison, at_end = self._comparison(), self._compared(end_state)
        self._answer(replace(ran, times=times, comparison=comparison, at_end=at_end), "")

    def _failed(self, failure: BaseException) -> None:
        """Record how the program's exception ended the run."""
        if isinstance(failure, Enough):
            self.ended = Ended.STOPPED
        elif isinstance(failure, SystemExit):
            self.code = "" if failure.code is None else repr(failure.code)
        else:
            self.finding = self.session.finding_for(failure)
            self.ended = Ended.ERROR if self.finding is None else Ended.FINDING
            self.error = "".join(traceback.format_exception_only(failure)).strip()

    # --- on the way ---------------------------------------------------------------------------------

    def _after_backward(self, nth: int) -> bool:
        """Return whether to end the run, because its gradients differ from the reference's."""
        if self.job.to_end:
            self.living.look(nth)
        mine, reference = self.recorder.records, self.reference
        # Calls after `stop_after` leave no record to compare.
        if len(mine) != nth:
            return False
        against = self.job.against
        in_order = against is not None and not against.moves
        comparable = reference is not None and nth <= len(reference.records) and in_order
        if comparable and self._compare(1, nth - 1).why:
            return True
        if self.job.until is not None and nth >= self.job.until:
            # It counts if the end does not come in time.
            self.ended = Ended.STOPPED
            self._record(None)
            self._answer(replace(self._ran(), comparison=self._comparison(), too_long=True), ".so-far")
            self.ended = Ended.FINISHED
        return False

    # --- the result ---------------------------------------------------------------------------------

    def _ran(self) -> Ran:
        """Return the result so far, without comparisons."""
        session, recorder = self.session, self.recorder
        own = () if self.finding is None or self.finding in session.findings else (self.finding,)
        children = repr(multiprocessing.process._process_counter) != "count(1)"  # type: ignore[attr-defined]
        # A kept result doesn't know the bytes that were piped in.
        others = self.files.reads is None or children or self.read.is_read
        return Ran(
            ended=self.ended,
            findings=(*session.findings, *own),
            backwards=recorder.started,
            leaves=len(recorder.leaves),
            failed_at=recorder.failed_at or recorder.started + 1,
            error=self.error,
            seconds=time.perf_counter() - self.began,
            cpu_seconds=time.process_time() - self.cpu_began,
            peak_bytes=max(0, _peak() - self.base),
            loaded=self._loaded(),
            lacks_input=self.read.is_read and not self.read.is_given,
            children=children,
            held=self.holders.held,
            reads=None if others else tuple(self.files.reads or ()),
            leftovers=dict(self.files.digests),
        )

    def _loaded(self) -> tuple[str, ...]:
        paths = [str(module.__file__) for module in self._own_modules().values()]
        return tuple(sorted({os.path.realpath(self._here(path)) for path in paths if path.endswith(".py")}))

    def _own_modules(self) -> dict[str, ModuleType]:
        """Return the modules, by name, that the program has loaded from files of its own."""
        new = [(name, module) for name, module in list(sys.modules.items()) if name not in self.before]
        return {
            name: module
            for name, module in new
            if isinstance(path := getattr(module, "__file__", None), str)
            # multiprocessing's second name for the script.
            and name != "__mp_main__"
            and self.project.owns(self._here(path))
        }

    def _here(self, path: str) -> str:
        return self.job.at.copy.here(os.path.abspath(path))

    def _answer(self, ran: Ran, suffix: str) -> None:
        """Write the answer in one step, so that the driver never reads half of it."""
        part = f"{self.job.at.answer_to}.part"
        with open(part, "wb") as file:
            pickle.dump(ran, file)
        os.replace(part, f"{self.job.at.answer_to}{suffix}")

    def _state_at_end(self, generators: dict[str, str]) -> EndState:
        """Run the exit functions and return the end state."""
        job = self.job
        # Here, because `os._exit` ends the child, and what exit functions print belongs to the end state.
        atexit._run_exitfuncs()
        _end_state.flush()
        return _end_state.end_state_of(
            f"error {self.error}" if self.error else f"exit {self.code}",
            printed={name: f"{job.at.answer_to}.{name}" for name in ("stdout", "stderr")},
            files=self.files.written(),
            own=self._own_modules(),
            living=self.living,
            generators=generators,
        )

    # --- the reference ------------------------------------------------------------------------------

    def _record(self, end_state: EndState | None) -> None:
        if self.job.record_to is not None:
            part = f"{self.job.record_to}.part"
            torch.save(RunRecord(self.recorder.records, end_state), part)
            os.replace(part, self.job.record_to)

    def _compare(self, until: int, skipped: int = 0) -> Comparison:
        """Compare the recorded backward calls with the reference's from number ``skipped`` on."""
        assert self.reference is not None
        assert self.job.against is not None
        how = compare_moved if self.job.against.moves else compare
        try:
            return how(self.reference.records[skipped:], self.recorder.records[skipped:], until)
        except RuntimeError as problem:  # also NotImplementedError, of layouts that have no comparison
            return Comparison(f"gradients could not be compared: {problem}")

    def _comparison(self) -> Comparison | None:
        if self.job.against is None:
            return None
        if self.reference is None:
            return Comparison("the reference could not be run")
        until = self.job.until
        return self._compare(len(self.reference.records) if until is None else until)

    def _compared(self, end_state: EndState | None) -> tuple[Different, ...] | None:
        """Return the differences of the end states, without those that the original has itself."""
        against, reference = self.job.against, self.reference
        if end_state is None or against is None or reference is None or reference.end_state is None:
            return None
        try:
            different = compare_end_states(reference.end_state, end_state, against)
        except RuntimeError as problem:  # also NotImplementedError, of layouts that have no comparison
            different = [Different("state", f"the state could not be compared: {problem}")]
        return tuple(entry for entry in different if entry.what not in against.nondeterministic)


def _seed() -> None:
    random.seed(SEED)
    torch.manual_seed(SEED)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(SEED)


def _peak() -> int:  # `ru_maxrss` is in kibibytes on Linux, in bytes on macOS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
