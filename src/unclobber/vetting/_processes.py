"""Each way in a process of its own, so that a crash or an endless loop costs one row.

A process that torch was imported in, and that has no thread but its own, is forked, which takes milliseconds:
the module is there already. If it may not be forked, each process imports torch and loads the target itself.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.util import _run_finalizers  # type: ignore[attr-defined]
from typing import Any

import torch

from ..model import UnclobberError
from ..session import Session
from ._case import Case
from ._judge import judge
from ._results import WayResult
from ._targets import Target

_WITH_COMPILER = ("two-steps", "checkpoint", "compiled")
"""Beginnings of the ways that import torch's compiler: optimizers and checkpoints look whether it runs."""


@dataclass
class _Running:
    """A way whose process has started."""

    way: str
    process: BaseProcess
    log: str  # the file of what it prints
    started: float


def can_fork() -> bool:
    """Return whether a child could run: no thread holds a lock here, and no driver of a GPU has a state."""
    if not sys.platform.startswith("linux") or torch.cuda.is_initialized():
        return False
    # Threads of C++ count, too: a pool of OpenMP that exists before a fork blocks the child's first loop.
    return len(os.listdir("/proc/self/task")) == 1


def run_ways(
    target: Target,
    case: Case,
    ways: Sequence[str],
    *,
    jobs: int,
    limit: float,
    on_step: Callable[[str, int], None] = lambda way, done: None,
) -> tuple[WayResult, ...]:
    """Judge each way in a process, several at a time, and return the results in the order of ``ways``.

    Args:
        target: The target, for processes that load it again.
        case: The loaded target, for forked ones.
        ways: Names of ways.
        jobs: Number of processes at a time.
        limit: Seconds for each way.
        on_step: Called with each way that starts and the number of those that ended.
    Raises:
        UnclobberError: The target can't be used at all, such as a module that can't be copied.
    """
    if can_fork():
        _warm_up(ways)
    context: Any = multiprocessing.get_context("fork" if can_fork() else "spawn")
    waiting, running = deque(ways), dict[Connection, _Running]()
    results: dict[str, WayResult] = {}
    with tempfile.TemporaryDirectory(prefix="unclobber-vet-") as folder:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    way = waiting.popleft()
                    on_step(way, len(results))
                    connection, started = _started(context, target, case, way, os.path.join(folder, way))
                    running[connection] = started
                first_end = min(process.started for process in running.values()) + limit
                ready = wait(list(running), timeout=max(0.0, first_end - time.monotonic()))
                overdue = [c for c, r in running.items() if time.monotonic() - r.started >= limit]
                for connection in {*overdue} | running.keys() & {*ready}:
                    ended = running.pop(connection)
                    results[ended.way] = _ended(ended, connection if connection in ready else None, limit)
                    connection.close()
        finally:
            for left in running.values():
                left.process.kill()
    return tuple(results[way] for way in ways)


def _warm_up(ways: Sequence[str]) -> None:
    """Do once what each child would do again: inspect torch's operators, import torch's compiler."""
    Session.prepare()
    if any(way.startswith(_WITH_COMPILER) for way in ways):
        torch.compiler.reset()


def _started(context: Any, target: Target, case: Case, way: str, log: str) -> tuple[Connection, _Running]:
    """Start the process of a way. Return the connection at which its result will arrive."""
    receiver, sender = context.Pipe(duplex=False)
    given = case if context.get_start_method() == "fork" else None
    process = context.Process(target=_judge_in_child, args=(target, given, way, sender, log), daemon=True)
    process.start()
    sender.close()  # so that the child's end is the only one, and its death is the end of the stream
    return receiver, _Running(way, process, log, time.monotonic())


def _judge_in_child(target: Target, case: Case | None, way: str, sender: Connection, log: str) -> None:
    """Judge one way, send the result or the target's error and end the process at once."""
    # What the module prints would mix with the report.
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    torch.set_num_threads(1)
    try:
        answer: WayResult | UnclobberError = judge(way, target.load() if case is None else case)
    except UnclobberError as error:
        answer = error
    sender.send(answer)
    sender.close()
    _run_finalizers()  # else Python warns of semaphores: torch's compiler makes one if transformers is loaded
    os._exit(0)  # taking torch apart takes longer than most ways


def _ended(running: _Running, connection: Connection | None, limit: float) -> WayResult:
    """Return the result of a process that has answered or died, or kill one whose time is over.

    Raise the UnclobberError that it has answered with, if the target can't be used at all.
    """
    process, seconds = running.process, time.monotonic() - running.started
    if connection is None:
        process.kill()
        process.join()
        return WayResult(running.way, "time limit", f"it ran for more than {limit:g} s", seconds=seconds)
    try:
        answer: WayResult | UnclobberError = connection.recv()
        process.join()
        if isinstance(answer, UnclobberError):
            raise answer
        return answer
    except EOFError:
        process.join()
    code = process.exitcode or 0
    how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
    with open(running.log, encoding="utf-8", errors="replace") as log:
        lines = [line.strip() for line in log if line.strip()]
    # A Python process that dies of a signal prints nothing; an exception's last line says most.
    return WayResult(running.way, "crashed", ": ".join([how, *lines[-1:]])[:200], seconds=seconds)
