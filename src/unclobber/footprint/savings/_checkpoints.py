"""Modules that are computed again in backward, instead of keeping their saved tensors, and runs with them.

A module's saved tensors end with its forward and come back, all at once, when its backward begins:
the peak sinks by what was kept meanwhile, and the module's forward is paid once more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from .. import _places
from .._facts import Change, Edits
from .._modules import pattern
from .._names import Named
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
            for save in self.trace.storages[number].saves
            if save.needed is not None and call.begin <= save.tick <= call.end
        ]
        return min(read_at) - 1 if read_at else None

    def _gone(self, call: ModuleCall, made: Iterable[int], window: int) -> Iterable[Span]:
        """Yield the memory that only the module keeps, from its end until its backward."""
        assert call.end is not None
        for number in made:
            storage = self.trace.storages[number]
            own = all(call.begin <= save.tick <= call.end for save in storage.saves)
            last = max(map(self.trace.end, storage.saves), default=0)
            # Memory that a name holds, or that is read after the module's end, stays alive anyway.
            held = storage.died is None or storage.died > max(last, call.end)
            if own and not held and storage.last_read <= call.end < window:
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


# --- a run with it -----------------------------------------------------------------------------------
class RowRunner:
    """Runs the modules of a row when the first of them is called; calls of the other modules return the
    result.

    Args:
        modules: The modules of the row, in order.
        contexts: Returns the contexts of the first forward and of the one in backward.
    """

    def __init__(self, modules: Sequence[torch.nn.Module], contexts: Callable[[], tuple[Any, Any]]) -> None:
        """Replace the modules' ``forward``."""
        self._modules = tuple(modules)
        self._contexts = contexts
        self._inside = False
        self._result: Any = None
        self._forward = modules[0].forward
        modules[0].forward = self._first
        for module in modules[1:]:
            module.forward = partial(self._later, module, module.forward)

    def _first(self, *args: Any, **kwargs: Any) -> Any:
        """Run the whole row in place of its first module, under `checkpoint`."""
        # Inside of `_all`, which calls the modules itself, each runs as usual.
        alone = len(self._modules) == 1
        if self._inside or not torch.is_grad_enabled() or not (args or alone):
            return self._forward(*args, **kwargs)
        result = checkpoint(self._all, *args, use_reentrant=False, context_fn=self._contexts, **kwargs)
        if not alone:
            self._result = result
        return result

    def _all(self, *args: Any, **kwargs: Any) -> Any:
        """Run the whole row; backward runs it once more."""
        self._inside, before = True, self._inside
        try:
            result = self._forward(*args, **kwargs)
            for module in self._modules[1:]:
                # A block may return a tuple whose first element is the next module's input.
                given = result if isinstance(result, Tensor) else result[0]
                result = module(given, *args[1:], **kwargs)
            return result
        finally:
            self._inside = before

    def _later(self, module: torch.nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._inside or self._result is None:
            return forward(*args, **kwargs)
        result = self._result
        if module is self._modules[-1]:
            self._result = None
        return result


class Checkpointer:
    """Makes rows of modules checkpoint themselves while a program runs; give ``learned`` to a recorder.

    Args:
        rows: Modules that are computed again as one, in the order in which they run.
        modes: Function modes to run the second forward under. ``Tensor.backward`` is a function that a mode
            sees, and nothing inside of what it sees goes through it again.
    """

    def __init__(self, rows: Iterable[tuple[Named, ...]], modes: Sequence[TorchFunctionMode]) -> None:
        self._rows = tuple(rows)
        self._modes = tuple(modes)
        self._changed: list[torch.nn.Module] = []

    def learned(self, root: torch.nn.Module, tree: int) -> None:
        """Prepare the wanted rows below a first module that is about to run."""
        known = dict(root.named_modules())
        for row in self._rows:
            if all(module_tree == tree and path in known for module_tree, path in row):
                modules = [known[path] for _, path in row]
                # A `forward` on the instance is a patch of the program's, or this one from another path.
                if not any("forward" in vars(module) for module in modules):
                    RowRunner(modules, self._contexts)
                    self._changed += modules

    def restore(self) -> None:
        for module in self._changed:
            vars(module).pop("forward", None)
        self._changed.clear()

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
