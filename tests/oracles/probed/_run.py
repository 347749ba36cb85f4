"""Run a probed program, here or in a process that never imports the package, and hand out its log.

As a script it is that process: it reads texts from its input, and writes logs to its output.
"""

from __future__ import annotations

import gc
import linecache
import pickle
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import torch

Log = list[tuple[Any, ...]]


@cache
def _probes() -> CodeType:
    path = Path(__file__).with_name("_probes.py")
    return compile(path.read_text("utf-8"), str(path), "exec")


def run_text(text: str, context: Callable[[], AbstractContextManager[Any]] = nullcontext) -> Log:
    """The log of one run: what the program noted, its error, its warnings, and what it left behind."""
    space: dict[str, Any] = {"__name__": "probed", "context": context}
    always = torch.is_warn_always_enabled()
    gc.collect()
    gc.freeze()  # what is there is none of the program's
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            exec(_probes(), space)
            try:
                # torch's sentence about a result that is a view is told by the source: docs/limits.md
                linecache.cache["<probed>"] = len(text), None, text.splitlines(keepends=True), "<probed>"
                exec(compile(text, "<probed>", "exec"), space)
            except Exception as error:
                space["note"]("ends")
                space["note_error"](error)
                error.__traceback__ = None
    finally:
        torch.set_warn_always(always)
    log: Log = space["log"]
    log.extend(
        ("warning", one.category.__name__, space["error_text"](one.message))
        for one in caught
        if not one.category.__module__.startswith("unclobber")
    )
    space.clear()
    gc.collect()
    gc.collect()  # a graph that only the first one frees held the cycle of our session
    left = [type(one).__name__ for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
    log.append(("left behind", sorted(left)))
    return log


class Plainly:
    """A process that runs programs plain, one after the other."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        import subprocess  # not in that process, whose programs count what is alive

        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, text: str) -> Log:
        """As ``run_text``, there."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(text, process.stdin)
            process.stdin.flush()
            log: Log = pickle.load(process.stdout)
        except BaseException:
            # Its answer may still come, after a timeout: the next program would be given it.
            process.kill()
            self.end()
            self._start()
            raise
        return log

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


def _serve() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    while True:
        try:
            text = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(run_text(text), answers.buffer)
        answers.buffer.flush()


if __name__ == "__main__":
    _serve()
