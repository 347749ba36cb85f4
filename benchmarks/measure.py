"""Time modes side by side: interleaved in one process, CPU time of one thread."""

from __future__ import annotations

import gc
import random
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

import unclobber
from unclobber.observe.native import core

Context = Callable[[], AbstractContextManager[Any]]


class WithCore:
    """A context of ours that is entered with one of the two cores, whichever the process runs."""

    def __init__(self, context: Context, loaded: core.Loaded) -> None:
        self._context = context()
        self._loaded = loaded

    def __enter__(self) -> Any:
        before, core.loaded = core.loaded, lambda: self._loaded
        try:
            return self._context.__enter__()
        finally:
            core.loaded = before

    def __exit__(self, *error: Any) -> Any:
        return self._context.__exit__(*error)


NATIVE = core.loaded()  # the native one is measured, too, where UNCLOBBER_NATIVE=1 is set
PYTHON = core.Loaded(None, "it is measured")
WATCH: dict[str, Context] = {
    "watch": partial(WithCore, unclobber.watch, PYTHON),
    "guard": partial(WithCore, unclobber.guard, PYTHON),
}
if NATIVE.module is not None:
    WATCH["watch, native"] = partial(WithCore, unclobber.watch, NATIVE)
    WATCH["guard, native"] = partial(WithCore, unclobber.guard, NATIVE)

MODES: dict[str, Context] = {
    "plain": nullcontext,
    **WATCH,
    "detect_anomaly": torch.autograd.detect_anomaly,
    "allow_mutation": torch.autograd.graph.allow_mutation_on_saved_tensors,
    "fingerprint": partial(unclobber.watch, fingerprint=1.0),
    "fingerprint=0.1": partial(unclobber.watch, fingerprint=0.1),
}

OF_PYTHON = {"watch", "guard"}
AGAIN = "plain again"
"""Plain once more: how far its ratio to plain is from 1 says how exact the others are."""
CLOSE = ("plain", *WATCH)
"""A few percent apart: these run in every round, to tell them from noise, the others in each ``EVERY``."""
EVERY = 5

clock = time.thread_time  # the machine may be shared: other programs' time isn't ours


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds per step, and the ratio to plain: round by round, so that drift cancels."""

    median: float
    low: float
    """First quartile of all steps."""
    high: float
    """Third quartile."""
    ratio: float
    ratio_low: float
    ratio_high: float


def interleaved(
    step: Callable[[], None],
    rounds: int,
    steps: int,
    clock: Callable[[], float] = clock,
    modes: tuple[str, ...] = tuple(MODES),
) -> dict[str, Timing]:
    """Run ``step`` in every mode, in rounds; each round enters a context once.

    The modes of a round come in random order, the same in every run: each finds caches and the allocator
    as the one before left them, so none may always come after the same one. The first step in a context
    isn't timed. First the modes of the core that this process runs, then those of the Python core, each
    beside plain: what is installed in torch is that of the core which comes first.
    """
    shuffled = random.Random(0)
    found: dict[str, Timing] = {}
    for own in filter(None, (set(modes) - OF_PYTHON - {"plain"}, OF_PYTHON & set(modes))):
        times: dict[str, dict[int, list[float]]] = {mode: {} for mode in modes if mode in {"plain", *own}}
        unclobber.uninstall()
        for _ in range(3):
            step()
        gc.collect()
        gc.freeze()  # what lives already: a collection before each round takes as long as ten steps otherwise
        for n in range(rounds):
            now = [mode for mode in times if mode in (*CLOSE, AGAIN) or n % EVERY == 0]
            for mode in shuffled.sample(now, len(now)):
                times[mode][n] = _round(nullcontext if mode == AGAIN else MODES[mode], step, steps, clock)
        gc.unfreeze()
        found = {**_summarise(times), **found}
    return {mode: found[mode] for mode in modes}


def _round(context: Context, step: Callable[[], None], steps: int, clock: Callable[[], float]) -> list[float]:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # detect_anomaly warns that it is slow
        gc.collect()
        with context():
            step()
            for _ in range(steps):
                start = clock()
                step()
                found.append((clock() - start) * 1e3)
    return found


def _summarise(times: Mapping[str, Mapping[int, list[float]]]) -> dict[str, Timing]:
    plain = {n: statistics.median(each) for n, each in times["plain"].items()}
    summary = {}
    for mode, rounds in times.items():
        low, median, high = quartiles([t for each in rounds.values() for t in each])
        ratios = [statistics.median(each) / plain[n] for n, each in rounds.items()]
        ratio_low, ratio, ratio_high = quartiles(ratios)
        summary[mode] = Timing(median, low, high, ratio, ratio_low, ratio_high)
    return summary


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """First quartile, median, third quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


@dataclass(frozen=True, slots=True)
class Entry:
    """Milliseconds to enter and leave an empty context."""

    first: float
    """The very first time in a process, entering only."""
    enter: float
    leave: float


def entries(times: int) -> dict[str, Entry]:
    """What it costs to enter and leave each context; meaningful once per process."""
    found = {}
    for mode, context in MODES.items():
        enter, leave = [], []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(times + 1):
                start = clock()
                manager = context()
                manager.__enter__()
                between = clock()
                manager.__exit__(None, None, None)
                enter.append((between - start) * 1e3)
                leave.append((clock() - between) * 1e3)
        found[mode] = Entry(enter[0], statistics.median(enter[1:]), statistics.median(leave[1:]))
    return found
