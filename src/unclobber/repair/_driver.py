"""Runs the script again and again, each time in a child of its own.

``python -m unclobber.repair._driver`` reads one pickled ``Job`` per line (as hexadecimal digits) from
its standard input. It imports torch once, enters a session once (all of torch's operators are looked
at then) and forks for each job, so a run costs neither; where there is no ``fork``, or where a fork would
not be safe, it starts itself anew. A child writes its answer to a file and the parent says how the child
ended.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from ._job import INTERRUPTED, Job


def main(argv: list[str]) -> int:
    if len(argv) > 1:
        _be_the_child(_decode(argv[1]))
        return 0
    with _interruptible():
        try:
            import torch  # noqa: F401
        except (ImportError, OSError):
            return 2  # who started us says so

        threads = _threads()  # NumPy's BLAS starts some, and ends them before each fork
        _warm_up()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        job = _decode(line.strip())
        if "optim" in _head(job):
            _make_optimizer()
        gc.freeze()  # what is ours is neither the program's nor worth a collector's time in each child
        outcome = _run(job, line.strip(), _threads() <= threads)
        names = _what_it_imported(job)
        print(outcome, file=answers, flush=True)
        for name in names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    return 0


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends this process without an exception, which an import of NumPy's prints and goes on."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    if hasattr(signal, "pthread_sigmask"):  # who started us has had it wait for this
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _warm_up() -> None:
    """Before the first fork: import what every run needs and enter a session, which lays the kernels."""
    import torch

    from ..derivatives import table
    from ..session.session import Session
    from . import _run  # noqa: F401

    table()
    if not torch.cuda.is_available():  # a context of CUDA's does not survive a fork
        with Session("guard", warn=False):
            pass


def _head(job: Job) -> str:
    try:
        with open(os.path.join(job.folder, job.script), encoding="utf-8", errors="replace") as stream:
            return stream.read(100_000)
    except OSError:
        return ""


@functools.cache
def _make_optimizer() -> None:
    """The first optimizer of a process imports a good part of torch: a second in each child."""
    import torch

    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)


def _may_fork() -> bool:
    """Whether a child would have all that we have: no thread of Python's, no context of an accelerator's."""
    import torch

    return hasattr(os, "fork") and threading.active_count() == 1 and not torch.cuda.is_initialized()


def _threads() -> int:
    """Threads of this process, where that can be told."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def _what_it_imported(job: Job) -> list[str]:
    """The parts of torch that a child has loaded and we have not: loaded here, the next one need not."""
    try:
        with open(f"{job.answer_to}.modules") as file:
            return [name for name in file.read().split() if name not in sys.modules]
    except OSError:
        return []


def _decode(digits: str) -> Job:
    job: Job = pickle.loads(bytes.fromhex(digits))
    return job


def _run(job: Job, digits: str, no_new_threads: bool) -> str:
    """How the child ended: ``done``, ``timeout`` or ``died <code>``."""
    if not (no_new_threads and _may_fork()):
        fresh = subprocess.Popen([sys.executable, "-m", "unclobber.repair._driver", digits])
        try:
            return _wait(fresh.pid, job)
        finally:
            fresh.returncode = 0  # it has been waited for
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
    try:
        return _outcome(child, job)
    except BaseException:
        _kill_group(child)  # Ctrl-C ends us, and reaches no child: each has a session of its own
        raise


def _outcome(child: int, job: Job) -> str:
    began = time.monotonic()
    end = began + job.timeout
    gone_on = False
    pause = 0.002
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            _kill_group(child)  # workers that it left behind
            code = os.waitstatus_to_exitcode(status)
            return "done" if code == 0 else f"died {code}"
        if not gone_on and os.path.exists(f"{job.answer_to}.so-far"):
            gone_on, end = True, min(end, began + job.seconds_to_end)
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
    from ._run import Run

    if hasattr(os, "setsid"):
        with contextlib.suppress(OSError):
            os.setsid()
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    for stream, name in ((1, "stdout"), (2, "stderr")):
        to = os.open(f"{job.answer_to}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(to, stream)
    sys.stdin = os.fdopen(0, closefd=False)
    if job.folder:
        os.chdir(job.copy.there(os.path.realpath(job.folder)))
    Run(job).perform()
    with open(f"{job.answer_to}.modules", "w") as names:
        names.write("\n".join(name for name in list(sys.modules) if name.startswith("torch.")))


if __name__ == "__main__":
    assert threading.active_count() == 1
    try:
        raise SystemExit(main(sys.argv))
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)  # who interrupted us says so
