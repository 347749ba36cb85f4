"""Runs the script again and again, each time in a child of its own.

``python -m unclobber.repair._driver`` reads one pickled ``Job`` per line (as hexadecimal digits) from
its standard input. It imports torch once and forks for each job, so a run costs no import; where there
is no ``fork`` it starts itself anew. A child writes its answer to a file and the parent says how the
child ended. Nothing of torch is run in the parent, for a thread pool would not survive the fork.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from . import _leftovers, _overlay, _proposal
from ._job import Comparison, Job, Ran

if TYPE_CHECKING:
    from ..model import Finding
    from ._recorder import Recorder

SEED = 0
"""Put into every generator before the script starts; a script that sets seeds of its own overrides it."""


def main(argv: list[str]) -> int:
    if len(argv) > 1:
        _be_the_child(_decode(argv[1]))
        return 0
    # Before the first fork: that is the point of this process.
    import torch  # noqa: F401

    from .. import _session  # noqa: F401
    from ..knowledge import derivatives
    from . import _readings, _recorder  # noqa: F401

    derivatives.table()

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        job = _decode(line.strip())
        print(_run(job, line.strip()), file=answers, flush=True)
        _import_what_it_imported(job)
    return 0


def _import_what_it_imported(job: Job) -> None:
    """Import the parts of torch that a child has loaded, so that the next one need not: the first
    optimizer of a process costs more than a second."""
    try:
        with open(f"{job.answer_to}.modules") as file:
            names = file.read().split()
        os.unlink(file.name)
    except OSError:
        return
    for name in names:
        if name not in sys.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def _decode(digits: str) -> Job:
    job: Job = pickle.loads(bytes.fromhex(digits))
    return job


def _run(job: Job, digits: str) -> str:
    """How the child ended: ``done``, ``timeout`` or ``died <code>``."""
    if not hasattr(os, "fork"):
        try:
            done = subprocess.run(
                [sys.executable, "-m", "unclobber.repair._driver", digits], timeout=job.timeout, check=False
            )
        except subprocess.TimeoutExpired:
            return "timeout"
        return "done" if done.returncode == 0 else f"died {done.returncode}"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _be_the_child(job)
            code = 0
        finally:
            os._exit(code)
    return _wait(child, job.timeout)


def _wait(child: int, timeout: float) -> str:
    try:
        return _outcome(child, timeout)
    except BaseException:
        _kill_group(child)  # Ctrl-C ends us, and reaches no child: each has a session of its own
        raise


def _outcome(child: int, timeout: float) -> str:
    end = time.monotonic() + timeout
    pause = 0.002
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            _kill_group(child)  # workers that it left behind
            code = os.waitstatus_to_exitcode(status)
            return "done" if code == 0 else f"died {code}"
        if time.monotonic() > end:
            _kill_group(child)
            os.waitpid(child, 0)
            return "timeout"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def _kill_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def _be_the_child(job: Job) -> None:
    if hasattr(os, "setsid"):
        with contextlib.suppress(OSError):
            os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.stdin = os.fdopen(0, closefd=False)
    answer = _perform(job)
    with open(job.answer_to, "wb") as file:
        pickle.dump(answer, file)
    with open(f"{job.answer_to}.modules", "w") as names:
        names.write("\n".join(name for name in list(sys.modules) if name.startswith("torch.")))


def _perform(job: Job) -> Ran:
    import torch

    from .._session import Session
    from . import _readings
    from ._recorder import Enough, Recorder

    _overlay.install(job.overlay)
    reads = None if job.since is None else _leftovers.Reads(job.since)
    recorder = Recorder(job.stop_after, cut=_proposal.CUT in job.readings)
    policy: Any = job.policy
    session = Session(policy, strict=True, warn=False)
    ending, error = "finished", ""
    findings: list[Finding] = []
    base = _peak()
    began, cpu_began = time.perf_counter(), time.process_time()
    with contextlib.ExitStack() as stack:
        stack.enter_context(session)
        # Entering a session may probe torch with backward calls of its own.
        recorder.install()
        _seed(torch)
        _readings.enter(job.readings, stack)
        if reads is not None:
            sys.addaudithook(reads)
        try:
            _overlay.run_as_main(job.script, job.arguments, job.overlay)
        except Enough:
            ending = "stopped"
        except SystemExit:
            pass
        except BaseException as failure:
            finding = session.finding_for(failure)
            ending = "error" if finding is None else "finding"
            findings = [] if finding is None else [finding]
            error = "".join(traceback.format_exception_only(failure)).strip()
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        leftovers = {} if reads is None else dict(reads.found)
    found = (*session.findings, *(f for f in findings if f not in session.findings))
    return Ran(
        ending=ending,
        findings=found,
        backwards=recorder.begun,
        failed_at=recorder.failed_at if recorder.failed_at is not None else recorder.begun + 1,
        error=error,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        peak_bytes=max(0, _peak() - base),
        loaded=_loaded(),
        comparison=_record_and_compare(job, recorder, ending),
        leftovers=leftovers,
    )


def _record_and_compare(job: Job, recorder: Recorder, ending: str) -> Comparison | None:
    import torch

    from ._recorder import Story, compare_stories, state_of

    story = Story(recorder.records, state_of(vars(sys.modules["__main__"])), ending)
    if job.record_to is not None:
        torch.save(story, job.record_to)
    if job.compare_with is None:
        return None
    # Written a moment ago by this very code in another child.
    if not os.path.exists(job.compare_with):
        return Comparison(False, "the reference could not be run")
    reference: Story = torch.load(job.compare_with, weights_only=False)
    until = job.compare_until if job.compare_until is not None else len(reference.records)
    try:
        difference = compare_stories(reference, story, until)
    except (RuntimeError, NotImplementedError) as problem:
        return Comparison(False, f"gradients could not be compared: {problem}")
    return Comparison(
        same=not difference.why,
        why_not=difference.why,
        compared=difference.compared,
        leaves=difference.leaves,
        gradients=difference.gradients,
        largest_difference=difference.largest,
    )


def _seed(torch: Any) -> None:
    random.seed(SEED)
    torch.manual_seed(SEED)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(SEED)


def _peak() -> int:
    """Peak resident bytes of this process; kibibytes on Linux, bytes on macOS."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _loaded() -> tuple[str, ...]:
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return tuple(sorted(os.path.realpath(f) for f in files if isinstance(f, str) and f.endswith(".py")))


if __name__ == "__main__":
    assert threading.active_count() == 1
    raise SystemExit(main(sys.argv))
