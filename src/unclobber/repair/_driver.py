"""Runs the script repeatedly, each time in a child process of its own.

``python -m unclobber.repair._driver`` reads one pickled ``Job`` per line (as hexadecimal digits) from its
standard input. It imports torch once and enters a session once, which inspects all of torch's operators. Then
it forks for each job, so a run pays for neither. Without a safe ``fork`` it starts itself again instead. A
child writes its answer to a file, and the parent prints how the child ended.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import cast

from ._job import INTERRUPTED, Job


def main(argv: list[str]) -> int:
    """Run the jobs from standard input, or one of the command line. Return 2 if torch can't be imported."""
    if len(argv) > 1:
        _be_the_child(_decode(argv[1]))
        return 0
    with _interruptible():
        try:
            import torch
        except (ImportError, OSError):
            return 2  # the process that started this one reports it

        threads = _threads()  # NumPy's BLAS starts some, and ends them before each fork
        # The first optimizer imports a good part of torch: a second in each child, if it is not made here.
        torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        _prepare()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        job = _decode(line.strip())
        _prepare()  # again, because the last child's imports may have registered operators of torch's
        gc.freeze()  # the driver's objects aren't the program's, so a child's collector need not visit them
        for finalizer in weakref.finalize._registry:  # type: ignore[attr-defined]
            finalizer.atexit = False  # torch's unregister kernels: 0.04 s in each child, which ends anyway
        outcome = _run(job, line.strip(), _threads() <= threads)
        names = _what_it_imported(job)
        print(outcome, file=answers, flush=True)
        for name in names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    return 0


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end this process without an exception, which an import of NumPy's would print only."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    # the starting process has blocked the signal until here (``proof._interrupts_wait``)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _prepare() -> None:
    from ..session import Session
    from . import _run  # noqa: F401

    Session.prepare()


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def _what_it_imported(job: Job) -> list[str]:  # loaded here, the next child need not load them
    try:
        with open(f"{job.at.answer_to}.modules") as file:
            return [name for name in file.read().split() if name not in sys.modules]
    except OSError:
        return []


def _decode(digits: str) -> Job:
    return cast(Job, pickle.loads(bytes.fromhex(digits)))


def _run(job: Job, digits: str, no_new_threads: bool) -> str:
    """Run a job in a child, and return how it ended: ``done``, ``timeout`` or ``with exit code <code>``."""
    import torch

    # A fork would lack other threads and an accelerator's context.
    may_fork = threading.active_count() == 1 and not torch.cuda.is_initialized()
    if not (no_new_threads and may_fork):
        again = [sys.executable, "-m", "unclobber.repair._driver", digits]
        fresh = subprocess.Popen(again, pass_fds=[at for at in [job.at.input] if at >= 0])
        try:
            return _wait(fresh.pid, job)
        finally:
            fresh.returncode = 0  # the child has been waited for
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _be_the_child(job)
            code = 0
        finally:
            os._exit(code)
    return _wait(child, job)


def _wait(child: int, job: Job) -> str:
    """Return how the child ended; kill it after its time limit, which is shorter once its result is known."""
    began, pause = time.monotonic(), 0.002
    try:
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            gone_on = os.path.exists(f"{job.at.answer_to}.so-far")
            limit = min(job.at.timeout, job.at.seconds_to_end) if gone_on else job.at.timeout
            if time.monotonic() > began + limit:
                _kill_group(child)
                os.waitpid(child, 0)
                return "timeout"
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)
    finally:
        _kill_group(child)  # or workers that it left behind; Ctrl-C reaches no child's session
    code = os.waitstatus_to_exitcode(ended[1])
    return "done" if code == 0 else f"with exit code {code}"


def _kill_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def _be_the_child(job: Job) -> None:
    """Detach from the driver, redirect the streams to files, and run the job."""
    from ._run import Input, Run

    with contextlib.suppress(OSError):
        os.setsid()
    read = Input(job.at.input, os.path.join(os.path.dirname(job.at.answer_to), "input"))
    sys.stdin = io.TextIOWrapper(io.BufferedReader(read))
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(f"{job.at.answer_to}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
    os.chdir(job.at.copy.there(os.path.realpath(job.at.folder)))
    Run(job, read).perform()
    with open(f"{job.at.answer_to}.modules", "w") as names:
        names.write("\n".join(name for name in list(sys.modules) if name.startswith("torch.")))


if __name__ == "__main__":
    assert threading.active_count() == 1
    try:
        raise SystemExit(main(sys.argv))
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)  # the interrupting process reports it
