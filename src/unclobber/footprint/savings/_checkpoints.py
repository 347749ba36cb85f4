"""Modules that are computed again in backward, instead of keeping their saved tensors.

A module's saved tensors end with its forward and come back, all at once, when its backward begins:
the peak sinks by what was kept meanwhile, and the module's forward is paid once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from .. import _places
from .._facts import Change, Edits
from .._modules import pattern
from .._timeline import Span
from .._trace import ModuleCall, Operation, Trace, grouped
from . import _edits
from ._option import LEAST, Option
from ._regions import VIEWS


def groups(again: SecondForward) -> Iterator[Option]:
    """Yield changes for modules of one name, numbers apart: all of them, and every other one if there are
    more than three; and for all modules of a class that stand in several places, as the blocks of both
    halves of a U-Net do."""
    calls = [call for call in again.trace.calls_of_step() if call.parent is not None]
    chosen: list[tuple[str, list[ModuleCall], bool]] = []
    for (_, kind), members in grouped(calls, lambda call: (call.tree, call.kind)).items():
        modules = {call.key for call in members}
        nested = any(a != b and b[1].startswith(f"{a[1]}.") for a in modules for b in modules)
        # A module inside of another one of its class would be checkpointed twice.
        if len({pattern(call.path) for call in members}) > 1 and not nested:
            chosen.append((f"each {kind}", members, True))
    for (_, name, kind), members in grouped(calls, lambda c: (c.tree, pattern(c.path), c.kind)).items():
        named = f"{name} ({kind})"
        chosen.append((named, members, True))
        half = list(dict.fromkeys(call.key for call in members))
        if len(half) > 3:
            every_other = [call for call in members if call.key in half[::2]]
            chosen.append((f"every other {named}", every_other, False))
    write = "torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False) for module(x)"
    for title, members, editable in chosen:
        edits = partial(_edits.of_checkpoint, again.trace, members) if editable else tuple
        yield from again.change(title, write, [(call,) for call in members], edits)


class SecondForward:
    """Predictions, from the recording, of computing modules again.

    Args:
        trace: The recording.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        # From shapes and not from the clock, because proposals must not depend on the machine's load.
        self._work = [arithmetic(operation) for operation in trace.operations]
        self._whole = sum(self._work[operation.tick - 1] for operation in trace.forward)

    def change(
        self,
        title: str,
        write: str,
        pieces: Sequence[Sequence[ModuleCall]],
        edits: Callable[[], Edits] = tuple,
    ) -> Iterator[Option]:
        """Yield the change that computes modules again, if it lowers the peak enough to be reported.

        Args:
            write: Code or advice for the report.
            pieces: Calls of modules that run one after the other, each piece to be computed again as a whole.
            edits: Returns the edits of the source that make the change.
        """
        # Each piece as if it were one module call.
        spans, again = self._without([replace(piece[0], end=piece[-1].end) for piece in pieces])
        drop = self.trace.bytes.fall(spans) if spans else 0
        if drop > LEAST * max(self.trace.bytes.step):
            change = Change(
                sort="checkpoint",
                title=f"checkpoint {title}: compute it again in backward",
                write=write,
                place=_places.place(pieces[0][0].stack),
                modules=tuple(call.label for piece in pieces for call in piece),
                times=len(pieces),
                predicted=drop,
                recomputed=again,
                edits=edits(),
            )
            # Each piece once, however often it runs.
            rows = dict.fromkeys(tuple(call.key for call in piece) for piece in pieces)
            yield Option(change, tuple(spans), rows=tuple(rows))

    def _without(self, calls: Iterable[ModuleCall]) -> tuple[list[Span], float]:
        """Return the bytes that would not be alive, with ticks, and the share of forward that is redone."""
        spans: list[Span] = []
        again = 0.0
        for call in calls:
            again += sum(self._work[call.begin : call.end])
            inside = self.trace.inside(call)
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
            for save in self.trace.saves_of.get(number, ())
            if save.needed is not None and call.begin <= save.tick <= call.end
        ]
        return min(read_at) - 1 if read_at else None

    def _gone(self, call: ModuleCall, made: Iterable[int], window: int) -> Iterable[Span]:
        """Yield the memory that only the module keeps, from its end until its backward."""
        assert call.end is not None
        for number in made:
            storage, saves = self.trace.storages[number], self.trace.saves_of.get(number, ())
            own = all(call.begin <= save.tick <= call.end for save in saves)
            last = max((self.trace.end(save) for save in saves), default=0)
            # Memory that a name holds, or that is read after the module's end, stays alive anyway.
            held = storage.died is None or storage.died > max(last, call.end)
            if own and not held and self.trace.last_read(number) <= call.end < window:
                yield number, call.end + 1, min(window, last), storage.bytes

    def _held(self, came_in: Iterable[int], window: int) -> Iterable[Span]:
        # They must stay until the second forward.
        for number in came_in:
            storage = self.trace.storages[number]
            if storage.kind == "activation" and storage.died is not None and storage.died < window:
                yield number, storage.died + 1, window, -storage.bytes


def arithmetic(operation: Operation) -> float:
    """Return an operation's work by shapes: multiply-adds of products, 8 for each element of others."""
    tensors = operation.operands
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
