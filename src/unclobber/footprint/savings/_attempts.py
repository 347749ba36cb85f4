"""Runs of the program with changes in it, compared by loss, gradients, buffers, peak and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from ...torch_internals.agreement import compared
from ...torch_internals.engine import EngineCall, engine
from .._facts import InPlaceCandidate, Tried, TriedInPlace
from .._names import ModuleNames
from .._recorder import EnoughError, MemoryRecorder
from .._trace import Item, Trace
from ._again import KeepLess
from ._cache import NoCache
from ._checkpoints import Checkpointer
from ._formulas import FormulaMode
from ._held import ReleaseMode
from ._in_place import InPlaceMode, Key
from ._option import Option
from ._sites import SitesMode
from ._wide import NarrowMode

_TIMED = 2  # timed runs of a change; the quicker one counts


_Context = AbstractContextManager[InPlaceMode]


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
        """Take the program as it is as run already; nothing is run yet."""
        self._run = run
        self._restore = restore
        self.before = before
        self._step = step
        self.peak_before = max(before.bytes.step)
        self._known: dict[tuple[Option, ...], Tried] = {}

    @cached_property
    def seconds_before(self) -> float:
        return self._seconds(())  # timed as the changes are: without a recorder's work

    def run(self, options: tuple[Option, ...]) -> Tried:
        """Run the program once recorded and twice timed with these changes, unless done; compare."""
        if options not in self._known:
            before = self.seconds_before
            recorder = MemoryRecorder(self._step, keep_results=True)
            compared = self._compared(_made(options, recorder), recorder)[0]
            after = 0.0 if "error" in compared else self._seconds(options)
            self._known[options] = Tried(seconds_before=before, seconds_after=after, **compared)
        return self._known[options]

    def in_place(self, candidates: Sequence[InPlaceCandidate]) -> TriedInPlace:
        if not candidates:  # a run would compare the program with itself
            return TriedInPlace(substituted=0, places=0, **self._compared_with(self.before))
        recorder = MemoryRecorder(self._step, keep_results=True)
        keys = [key for candidate in candidates for key in candidate.keys]
        compared, mode = self._compared(_made((), recorder, keys), recorder)
        return TriedInPlace(substituted=mode.substituted, places=len(mode.places), **compared)

    def _compared(self, changes: _Context, recorder: MemoryRecorder) -> tuple[dict[str, Any], InPlaceMode]:
        failure, mode = self._perform(changes)
        if failure is None and len(recorder.trace.results) != len(self.before.results):
            failure = "it has other gradients than before"
        if failure is not None:
            return {"peak_before": self.peak_before, "error": failure}, mode
        return self._compared_with(recorder.trace), mode

    def _compared_with(self, after: Trace) -> dict[str, Any]:
        """Return the comparison of a recording that has as many results as the program as it is."""
        before = self.before
        pairs = list(zip(before.results, after.results, strict=True))
        losses, gradients = pairs[: before.roots], pairs[before.roots :]
        differences = [compared(a, b) for a, b in gradients]
        return {
            "peak_before": self.peak_before,
            "peak_after": max(after.bytes.step),
            # In the dtype of the changed run, because a change may leave a conversion to float64 out.
            "equal_loss": all(compared(a.to(b.dtype), b).is_rounding for a, b in losses),
            "gradients": len(gradients),
            "rounded_gradients": sum(d.relative > 0 and d.is_rounding for d in differences),
            "changed_gradients": sum(not d.is_rounding for d in differences),
            "largest_difference": max((d.relative for d in differences), default=0.0),
            "changed_buffers": _changed(before.buffers, after.buffers),
        }

    def _perform(self, changes: _Context) -> tuple[str | None, InPlaceMode]:
        self._restore()
        with changes as mode:
            return self._run(), mode

    def _seconds(self, options: Sequence[Option]) -> float:
        clocks = [StepClock(self._step) for _ in range(_TIMED)]
        # The quicker run, because whatever disturbs a run only adds time.
        return min((c.seconds for c in clocks if self._perform(_made(options, c))[0] is None), default=0.0)


@contextmanager
def _made(
    options: Sequence[Option], recorder: MemoryRecorder | StepClock, in_place: Sequence[Key] = ()
) -> Iterator[InPlaceMode]:
    """Return a context in which the program runs with changes; it gives the mode of the in-place calls.

    Args:
        recorder: Names the modules; a ``MemoryRecorder`` must not see what the changes themselves compute.
        in_place: Further calls that run in place, as keys.
    """
    # A clock sees no operations, so no mode must hide from it.
    recording = recorder if isinstance(recorder, MemoryRecorder) else None

    def every(rewrites: Callable[[Option], Sequence[Item]]) -> list[Item]:
        return [rewrite for option in options for rewrite in rewrites(option)]

    inplace = InPlaceMode([*in_place, *every(lambda option: option.in_place)], lambda: recorder.module)
    release = ReleaseMode(every(lambda option: option.releases), recording)
    dropped = every(lambda option: option.dropped)
    less = KeepLess(every(lambda option: option.again), every(lambda option: option.same), dropped, recording)
    formulas = FormulaMode(every(lambda option: option.formulas), recording)
    narrow = NarrowMode(every(lambda option: option.narrow))
    # A mode costs time at each call, which would be measured.
    modes: list[SitesMode] = [mode for mode in (formulas, inplace, narrow, release) if mode.sites]
    contexts: list[AbstractContextManager[object]] = []
    # Also for releases, because without hooks torch saves some tensors as they are.
    if less.sites or dropped or release.sites:
        modes.append(less)
        contexts.append(less.hooks)
    learners: list[Checkpointer | NoCache] = [Checkpointer(every(lambda option: option.rows), modes)]
    if any(option.without_cache for option in options):
        learners.append(NoCache())
    recorder.module_names.learners += [learner.learned for learner in learners]
    with ExitStack() as stack:
        # First, so that they run last, when no mode sees the modules any more.
        for learner in learners:
            stack.callback(learner.restore)
        for context in (recorder, *modes, *contexts):
            stack.enter_context(context)
        yield inplace


def _changed(before: Sequence[Tensor], after: Sequence[Tensor]) -> int:
    # Buffers of other modules can't be paired.
    if len(before) != len(after):
        return abs(len(before) - len(after))
    return sum(not compared(a, b).is_rounding for a, b in zip(before, after, strict=True))


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
        self.module_names = ModuleNames()
        self._modules: list[str] = []
        self._exits = ExitStack()
        self.seconds = 0.0

    @property
    def module(self) -> str | None:
        return self._modules[-1] if self._modules else None  # as a `MemoryRecorder` names it

    def __enter__(self) -> StepClock:
        """Register the module hooks and start the clock."""
        self._exits.callback(register_module_forward_pre_hook(self._module_begins).remove)
        self._exits.callback(register_module_forward_hook(self._module_ends, always_call=True).remove)
        self._exits.callback(engine.subscribe(self))
        self._entered = _now()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def _module_begins(self, module: torch.nn.Module, _: Any) -> None:
        self._modules.append(self.module_names.of(module).label)
        if self._started is None:
            self._started = _now()

    def _module_ends(self, *_: Any) -> None:
        if self._modules:
            self._modules.pop()

    def begin(self, call: EngineCall) -> bool:
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
        # What runs between two backwards belongs to the later step, its forward above all.
        self._started = now


def _now() -> float:
    if torch.cuda.is_initialized():
        # Kernels run asynchronously, so the clock waits for them.
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()
