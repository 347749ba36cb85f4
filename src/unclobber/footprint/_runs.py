"""Recording of a function, of a part of a program, or of a whole program."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from ..model import UnclobberError
from ..model.text import plural
from ..torch_internals import compat
from . import _places
from ._analysis import analyse
from ._facts import short
from ._recorder import EnoughError, MemoryRecorder
from ._shown import StepMemory
from ._trace import Operation
from .savings import advise
from .savings._attempts import Attempts


def memory(
    step: Callable[..., Any],
    *args: Any,
    backwards: int = 1,
    fake: bool = False,
    try_changes: bool = False,
    **kwargs: Any,
) -> StepMemory:
    """Run ``step(*args, **kwargs)`` up to the end of its first backward and say where memory goes.

    The report has ``by_line``, ``by_module``, ``timeline``, ``changes`` (what would save some) and
    ``to_dict()``; a notebook shows it as a page.

    Args:
        step: Builds a graph and calls backward; what follows the backward is not run. Gradients of leaves,
            buffers of modules and random generators are put back as they were before.
        backwards: The backward at whose end to stop; the report is of what ran since the one before.
        fake: Run on tensors without memory: ``step`` must make its model and its data itself.
        try_changes: Run ``step`` again, up to some fifty times, with the changes that would save memory, and
            compare loss, gradients, buffers, peak and time. What else ``step`` changes must not matter to it.
    Returns:
        The recorded step, up to the end of ``step`` if it calls backward less often.
    Raises:
        UnclobberError: ``try_changes`` with ``fake``, or with ``backwards`` above 1; ``backwards`` below 1.
        Exception: Any that ``step`` raises itself.
    Example:
        >>> def step():
        ...     w = torch.ones(1000, requires_grad=True)
        ...     (w.exp() * 2).sum().backward()
        >>> [(kept.bytes, kept.roles[0].role) for kept in memory(step).kept]
        [(4000, 'result')]
    """
    if backwards < 1:
        raise UnclobberError(f"backwards: the first backward is number 1, and not {backwards}")
    if try_changes and (fake or backwards > 1):
        raise UnclobberError("try_changes compares the gradients of one step on real tensors")
    restore_randomness = _randomness()
    recorder = MemoryRecorder(backwards, put_back=True, keep_results=try_changes, names=True)

    def run() -> str | None:
        """Run ``step`` with a change in it; return the reason why it failed, or None."""
        try:
            step(*args, **kwargs)
        except EnoughError:
            return None
        except Exception as error:  # of the step's own, with a change in it
            return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        return "it ended before its backward"

    def restore() -> None:
        restore_randomness()
        recorder.give_back()

    try:
        with _tensors(fake), recorder, contextlib.suppress(EnoughError):
            step(*args, **kwargs)
        trace = recorder.trace
        report = analyse(trace, command=(), fake=fake, step=backwards)
        if not try_changes:
            return advise.advised(trace, report)
        return advise.advised(trace, report, Attempts(run, restore, trace, backwards))
    finally:
        restore()


@contextlib.contextmanager
def record_step(
    model: torch.nn.Module, state: Iterable[torch.Tensor] = ()
) -> Iterator[Callable[[], StepMemory]]:
    """Record what runs inside, up to the end of its first backward, and let it go on to its end.

    Args:
        model: Module from which names start, whether it is called itself or not.
        state: Tensors that live anyway besides the model's, such as an optimizer's.
    Yields:
        A function that returns the report, to be called afterwards.
    """
    recorder = MemoryRecorder(stop=False, names=True)
    trace = recorder.trace
    recorder.learn(model, state)
    with recorder:
        yield lambda: advise.advised(trace, analyse(trace, command=(), fake=False, step=1))


def record_program(
    run: Callable[[], str | None],
    *,
    command: tuple[str, ...],
    step: int,
    fake: bool,
    try_changes: bool,
    progress: Callable[[int], None],
) -> StepMemory:
    """Record a program and return the report.

    Args:
        run: Runs the program. Returns the reason why it failed, or None. Called again for each change that
            is tried.
        step: Number of the backward at whose end the program is stopped, 1-based.
        try_changes: Whether to run it again with each change that could save memory.
        progress: Called with the number of operations now and then, with 0 at the end.
    """
    restore_randomness = _randomness()
    recorder = MemoryRecorder(step, keep_results=try_changes, progress=progress, names=True)
    with _tensors(fake), recorder:
        failure = run()
    progress(0)
    trace = recorder.trace
    if failure is not None:
        trace.ended_early = _explained(failure, trace.failed, fake)
    else:
        trace.failed = None
        # What is recorded then is of another moment than the wanted one.
        if 0 < trace.backwards < step:
            called = f"the program called backward {plural(trace.backwards, 'time')} only"
            trace.ended_early = f"{called}, and not {step}: this is what it held at its end"
    report = analyse(trace, command=command, fake=fake, step=step)
    # A program that failed has no gradients to compare a change with.
    if not try_changes or trace.ended_early is not None:
        return advise.advised(trace, report)
    attempts = Attempts(run, restore_randomness, trace, step)
    report = dataclasses.replace(report, trial=attempts.in_place(report.candidates))
    return advise.advised(trace, report, attempts)


def _explained(failure: str, failed: Operation | None, fake: bool) -> str:
    """Return why a program's failure ended the recording, as a clause."""
    place = None if failed is None else _places.place(failed.stack)
    source = f", `{place.source}`" if place is not None and place.source else ""
    if failed is not None and failed.wanted is not None:
        inside = f" in {failed.module}" if failed.module else ""
        at = f"{'in the backward of' if failed.backward else 'at'} {short(place)}{inside}"
        return f"out of memory: {failed.function} {at} asked for {failed.wanted} more{source}"
    names = tuple(error.__name__ for error in compat.compilers.fake_errors())
    if fake and failure.startswith(names):
        where = "" if place is None else f" at {short(place)}{source}"
        return f"the program looked at a value{where}, and under --fake there are none ({failure})"
    return f"the program failed: {failure}"


@contextlib.contextmanager
def _tensors(fake: bool) -> Iterator[None]:
    if not fake:
        yield
        return
    with compat.compilers.fake_mode(), compat.compilers.converting_fake_modules():
        yield


def _randomness() -> Callable[[], None]:
    """Return a function that restores every generator, so that a second run draws the same numbers."""
    drawn, drawn_by_python = torch.get_rng_state(), random.getstate()
    drawn_by_devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    # No import: a program that hasn't loaded NumPy draws nothing from its generator.
    numpy = sys.modules.get("numpy")
    drawn_by_numpy = None if numpy is None else numpy.random.get_state()

    def restore() -> None:
        torch.set_rng_state(drawn)
        torch.cuda.set_rng_state_all(drawn_by_devices)
        random.setstate(drawn_by_python)
        if numpy is not None:
            numpy.random.set_state(drawn_by_numpy)

    return restore
