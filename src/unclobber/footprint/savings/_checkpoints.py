"""Modules that are computed again in backward, instead of keeping their saved tensors.

A module's saved tensors end with its forward and come back, all at once, when its backward begins:
the peak sinks by what was kept meanwhile, and the module's forward is paid once more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from .._facts import Edits
from .._modules import pattern
from .._trace import ModuleCall, Named, Operation, Trace, grouped
from . import _edits
from ._option import Span
from ._regions import VIEWS, operands
from ._rows import Rerun, RowRunner, rows_below


def groups(trace: Trace) -> list[Rerun]:
    """Return modules of one name, numbers apart: all of them, and every other one if there are more than
    three; and all modules of a class that stand in several places, as the blocks of both halves of a U-Net
    do."""
    calls = [call for call in trace.calls_of_step() if call.parent is not None]
    reruns = []
    for (_, kind), members in grouped(calls, lambda call: (call.tree, call.kind)).items():
        modules = {call.key for call in members}
        nested = any(a != b and b[1].startswith(f"{a[1]}.") for a in modules for b in modules)
        # A module inside of another one of its class would be checkpointed twice.
        if len({pattern(call.path) for call in members}) > 1 and not nested:
            reruns.append(_rerun(f"each {kind}", members, partial(_edits.of_checkpoint, trace, members)))
    for (_, name, kind), members in grouped(calls, lambda c: (c.tree, pattern(c.path), c.kind)).items():
        named = f"{name} ({kind})"
        reruns.append(_rerun(named, members, partial(_edits.of_checkpoint, trace, members)))
        half = list(dict.fromkeys(call.key for call in members))
        if len(half) > 3:
            chosen = [call for call in members if call.key in half[::2]]
            reruns.append(_rerun(f"every other {named}", chosen))
    return reruns


def _rerun(title: str, calls: Sequence[ModuleCall], edits: Callable[[], Edits] = tuple) -> Rerun:
    write = "torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False) for module(x)"
    return Rerun(title, write, tuple((call,) for call in calls), edits)


class SecondForward:
    """Predictions, from the recording, of computing modules again.

    Args:
        trace: The recording.
    """

    def __init__(self, trace: Trace) -> None:
        """Index the recording by storage, and estimate the work of each operation."""
        self._trace = trace
        self._saves = trace.saves_of
        # From shapes and not from the clock, because proposals must not depend on the machine's load.
        self._work = [arithmetic(operation) for operation in trace.operations]
        self._whole = sum(self._work[operation.tick - 1] for operation in trace.forward)

    def of(self, calls: Iterable[ModuleCall]) -> tuple[list[Span], float]:
        """Return the bytes that would not be alive, with their ticks, and the part of forward's work done
        again, 0 to 1."""
        spans: list[Span] = []
        again = 0.0
        for call in calls:
            assert call.end is not None
            again += sum(self._work[call.begin : call.end])
            inside = self._trace.inside(call)
            made = {number for operation in inside for number in operation.makes}
            read = {number for operation in inside for number in operation.reads}
            window = self._backward_of(call, made | read)
            if window is not None:
                spans += self._gone(call, made, window)
                spans += self._held(read - made, window)
        return spans, again / self._whole if self._whole else 0.0

    def _backward_of(self, call: ModuleCall, numbers: Iterable[int]) -> int | None:
        """Return the tick before backward first reads a save of the module; None if it reads none."""
        assert call.end is not None
        read_at = [
            save.needed
            for number in numbers
            for save in self._saves.get(number, ())
            if save.needed is not None and call.begin <= save.tick <= call.end
        ]
        return min(read_at) - 1 if read_at else None

    def _gone(self, call: ModuleCall, made: Iterable[int], window: int) -> Iterable[Span]:
        """Yield the memory that only the module keeps, from its end until its backward."""
        assert call.end is not None
        for number in made:
            storage, saves = self._trace.storages[number], self._saves.get(number, ())
            own = all(call.begin <= save.tick <= call.end for save in saves)
            last = max((self._trace.end(save) for save in saves), default=0)
            # Memory that a name holds, or that is read after the module's end, stays alive anyway.
            held = storage.died is None or storage.died > max(last, call.end)
            if own and not held and self._trace.last_read(number) <= call.end < window:
                yield number, call.end + 1, min(window, last), storage.bytes

    def _held(self, came_in: Iterable[int], window: int) -> Iterable[Span]:
        """Yield the module's inputs that died before its backward: they must stay until the second
        forward."""
        for number in came_in:
            storage = self._trace.storages[number]
            if storage.kind == "activation" and storage.died is not None and storage.died < window:
                yield number, storage.died + 1, window, -storage.bytes


def arithmetic(operation: Operation) -> float:
    """Return an operation's estimated work by shapes: multiply-adds of products, 8 for each element of
    others."""
    tensors = operands(operation)
    made = max((prod(result.shape) for result in operation.results), default=0)
    if operation.name in ("mm", "bmm") and len(tensors) == 2:
        return 2.0 * made * tensors[0].shape[-1]
    if operation.name in ("addmm", "baddbmm") and len(tensors) == 3:
        return 2.0 * made * tensors[1].shape[-1]
    if operation.name == "convolution" and len(tensors) > 1:
        return 2.0 * made * prod(tensors[1].shape[1:])
    if "scaled_dot_product" in operation.name and len(tensors) > 1:
        return 4.0 * made * tensors[1].shape[-2]
    return 0.0 if operation.name in VIEWS else 8.0 * made


class Checkpointer:
    """Makes rows of modules checkpoint themselves while a program runs; give ``learned`` to a recorder.

    Args:
        rows: Modules that are computed again as one, in the order in which they run.
        modes: Function modes to run the second forward under. ``Tensor.backward`` is a function that a mode
            sees, and nothing inside of what it sees goes through it again.
    """

    def __init__(self, rows: Iterable[tuple[Named, ...]], modes: Sequence[TorchFunctionMode] = ()) -> None:
        """Remember the rows; `learned` changes their modules."""
        self._rows = tuple(rows)
        self._modes = tuple(modes)
        self._changed: list[torch.nn.Module] = []

    def learned(self, root: torch.nn.Module, tree: int) -> None:
        """Prepare the wanted rows below a first module that is about to run."""
        for row in rows_below(root, tree, self._rows):
            # A `forward` on the instance is a patch of the program's, or this one from another path.
            if not any("forward" in vars(module) for module in row):
                RowRunner(row, self._run_again)
                self._changed += row

    def restore(self) -> None:
        for module in self._changed:
            vars(module).pop("forward", None)
        self._changed.clear()

    def _run_again(self, forward: Any, *args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, context_fn=self._contexts, **kwargs)

    def _contexts(self) -> tuple[Any, Any]:
        # The first forward is inside of the modes; the second runs in `backward`, a call that they see only
        # as a whole.
        return contextlib.nullcontext(), self._entered()

    @contextlib.contextmanager
    def _entered(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for mode in self._modes:
                stack.enter_context(mode)
            yield
