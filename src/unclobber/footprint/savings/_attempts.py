"""Runs of the program with changes in it, compared by loss, gradients, buffers, peak and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from ...agreement import difference, rounding
from ...torch_internals.engine import EngineCall, engine
from .._facts import Tried
from .._timeline import timeline
from .._trace import Trace
from .._trial import ROUNDING, InPlaceMode, compared
from ..recorder import EnoughError, MemoryRecorder
from ._again import KeepLess
from ._cache import NoCache
from ._checkpoints import Checkpointer
from ._narrow import NarrowMode
from ._option import Option, step_bytes
from ._release import ReleaseMode
from ._substitute import FormulaMode

_TIMED = 2
"""Timed runs of a change; the quicker one counts."""


class Attempts:
    """Runs of one program with different changes.

    Args:
        run: Runs the program. Returns the reason why it failed, or None.
        restore: Restores the state from before the first run.
        before: The recording of the program as it is, with its results.
        step: Number of the backward at whose end each run stops.
    """

    def __init__(
        self, run: Callable[[], str | None], restore: Callable[[], None], before: Trace, step: int
    ) -> None:
        """Time the program as it is."""
        self._run = run
        self._restore = restore
        self._before = before
        self._step = step
        self.peak_before = step_peak(before)
        # Timed as the changes are: without a recorder, whose own work would count.
        self.seconds_before = self._seconds(())

    def run(self, options: Sequence[Option]) -> Tried:
        """Run the program once recorded and twice timed with these changes; return the comparison."""
        recorder = MemoryRecorder(self._step, keep_results=True)
        failure = self._perform(options, recorder)
        after = recorder.trace
        if failure is None and len(after.results) != len(self._before.results):
            failure = "it has other gradients than before"
        if failure is not None:
            return Tried(self.peak_before, 0, self.seconds_before, 0.0, False, 0, 0, 0, 0.0, error=failure)
        return Tried(
            peak_before=self.peak_before,
            peak_after=step_peak(after),
            seconds_before=self.seconds_before,
            seconds_after=self._seconds(options),
            changed_buffers=_changed(self._before.buffers, after.buffers),
            **compared(self._before, after),
        )

    def _perform(self, options: Sequence[Option], recorder: MemoryRecorder | StepClock) -> str | None:
        """Run the program with the changes under a recorder or a clock; return the reason why it failed,
        or None."""
        self._restore()
        formulas = [formula for option in options for formula in option.formulas]
        keys = [key for option in options for key in option.in_place]
        # A clock sees no operations, so no mode must hide from it.
        recording = recorder if isinstance(recorder, MemoryRecorder) else None
        modes: list[TorchFunctionMode] = []
        if formulas:
            modes.append(FormulaMode(formulas, recording))
        if keys:
            modes.append(InPlaceMode(keys, recorder))
        if narrow := [site for option in options for site in option.narrow]:
            modes.append(NarrowMode(narrow))
        if releases := [release for option in options for release in option.releases]:
            modes.append(ReleaseMode(releases, recording))
        again = [site for option in options for site in option.again]
        dropped = [save for option in options for save in option.dropped]
        # Also for releases, because without hooks torch saves some tensors as they are.
        same = [site for option in options for site in option.same]
        less = None
        if again or same or dropped or releases:
            less = KeepLess(again, same, dropped, recording)
        if less is not None:
            modes.append(less)
        checkpointer = Checkpointer(
            (module for option in options for module in option.modules),
            modes,
            (row for option in options for row in option.rows),
        )
        cache = NoCache() if any(option.without_cache for option in options) else None

        def learned(root: torch.nn.Module, tree: int) -> None:
            checkpointer.learned(root, tree)
            if cache is not None:
                cache.learned(root, tree)

        recorder.learned = learned
        with ExitStack() as stack:
            # First, so that it runs last, when no mode sees the modules any more.
            stack.callback(checkpointer.restore)
            if cache is not None:
                stack.enter_context(cache.restored())
            stack.enter_context(recorder)
            for mode in modes:
                stack.enter_context(mode)
            if less is not None:
                stack.enter_context(less.hooks)
            return self._run()

    def _seconds(self, options: Sequence[Option]) -> float:
        """Return the seconds of the quicker of `_TIMED` runs with these changes; 0.0 if none came to its
        end."""
        taken = []
        for _ in range(_TIMED):
            clock = StepClock(self._step)
            if self._perform(options, clock) is None:
                taken.append(clock.seconds)
        # The quicker run, because whatever disturbs a run only adds time.
        return min(taken, default=0.0)


def _changed(before: Sequence[Tensor], after: Sequence[Tensor]) -> int:
    # Buffers of other modules can't be paired.
    if len(before) != len(after):
        return abs(len(before) - len(after))
    return sum(difference(a, b) > rounding(a, ROUNDING) for a, b in zip(before, after, strict=True))


def step_peak(trace: Trace) -> int:
    """Return the largest number of bytes of the step alone."""
    return max(step_bytes(timeline(trace)), default=0)


class StepClock:
    """A clock for the ``step``-th forward and backward; it ends the program there.

    It measures processor time of all threads, which other programs on the machine don't change; on a GPU,
    time on the clock.

    Args:
        step: As for ``MemoryRecorder``.
    """

    def __init__(self, step: int) -> None:
        """Prepare the clock; it starts when the context is entered."""
        self._step = step
        self._started: float | None = None
        self._entered = 0.0
        self._depth = 0
        self._backwards = 0
        self._names: dict[int, str] = {}
        self._modules: list[str] = []
        self._handles: list[Any] = []
        self._trees = 0
        self.learned: Callable[[torch.nn.Module, int], None] | None = None
        self.seconds = 0.0

    @property
    def module(self) -> str | None:
        """Label of the module whose ``forward`` runs now, as a ``MemoryRecorder`` names it."""
        return self._modules[-1] if self._modules else None

    def __enter__(self) -> StepClock:
        """Register the module hooks and start the clock."""
        self._handles = [
            register_module_forward_pre_hook(self._module_begins),
            register_module_forward_hook(self._module_ends, always_call=True),
        ]
        engine.subscribe(self)
        self._entered = _now()
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()
        engine.unsubscribe(self)

    def _module_begins(self, module: torch.nn.Module, _: Any) -> None:
        """Name a module, and start the clock at the first one of a step."""
        if id(module) not in self._names:
            for path, child in module.named_modules():
                # As `MemoryRecorder` names them, because the keys of `InPlaceMode` hold these names.
                self._names[id(child)] = f"{path} ({type(child).__name__})" if path else type(child).__name__
            if self.learned is not None:
                self.learned(module, self._trees)
            self._trees += 1
        self._modules.append(self._names[id(module)])
        if self._started is None:
            self._started = _now()

    def _module_ends(self, *_: Any) -> None:
        if self._modules:
            self._modules.pop()

    def begin(self, call: EngineCall) -> bool:
        """Note that a backward begins. Return whether it runs inside of no other one."""
        self._depth += 1
        return self._depth == 1

    def end(self, outermost: bool, call: EngineCall) -> None:
        """Note that a backward has ended; raise `EnoughError` if it is the wanted one."""
        self._depth -= 1
        if not outermost or not call.done:
            return
        now = _now()
        self._backwards += 1
        if self._backwards == self._step:
            # A step without modules counts from the entry.
            self.seconds = now - (self._entered if self._started is None else self._started)
            raise EnoughError
        self._started = now


def _now() -> float:
    if torch.cuda.is_initialized():
        # Kernels run asynchronously, so the clock waits for them.
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()
