"""Inputs that a custom Function overwrites in ``forward`` without ``ctx.mark_dirty``.

torch then leaves the input's history as it was: an operation that reads the input afterwards gets the
new values, and hands its gradient past the Function to whatever made the old ones. Only such a gradient
is wrong. What was written and never read again, as memory that a kernel uses up, does no harm, so
nothing is said before a backward call brings a gradient along that way for an element that changed.
A leaf is left out: a write to it under ``no_grad``, as ``forward`` runs, begins a new value.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from ...source import of_program
from ...torch_internals import compat
from ...torch_internals.engine import EngineCall, engine
from ...torch_internals.patches import Patches
from ..record import LARGEST_COPY, differing
from ..record.content import plain_key_or_none
from ..record.saved import same_memory
from .conflicts import Conflicts
from .write_log import WriteLog


class Unmarked:
    """An input that was overwritten; lives as long as the node that made its old values."""

    def __init__(self, report: Callable[[], None], base: torch.Tensor, where: torch.Tensor) -> None:
        """Register with the node that made the old values of ``base``.

        Args:
            report: Reports the conflict.
            base: The overwritten input, or its base.
            where: True for each element of ``base`` that has changed; of its shape.
        """
        self.report = report
        self.where = where  # mask of the base's shape: True for each element that has changed
        node: Any = compat.graph.grad_fn(base)
        node.register_hook(self.ran)
        self.node, self.number = compat.graph.node_key(node), compat.graph.sequence_number(node)
        self.output = base.output_nr
        self.moment = compat.graph.next_sequence_number()
        """Nodes from this number on were made after the Function had run, by the same thread."""
        self.thread = threading.get_ident()
        self.armed = True
        self.reported = False

    def ran(self, *_: Any) -> None:
        """Do nothing. As a hook of the node, this method makes the node hold the object.

        In the node's ``metadata`` a program would see it.
        """

    def arrived(self, position: int, gradients: Sequence[torch.Tensor | None], _: Any) -> None:
        """Report the conflict if a later reader's gradient of the input is not zero for a changed element."""
        gradient = gradients[position]
        if self.reported or gradient is None or gradient.shape != self.where.shape:
            return
        if not compat.tensors.is_plain(gradient):
            return
        with torch.no_grad(), compat.dispatcher.unseen_by_torch():
            wrong = bool((gradient.ne(0) & self.where).any())
        if wrong:
            self.reported = True
            self.report()


_alive: weakref.WeakSet[Unmarked] = weakref.WeakSet()
_lock = threading.Lock()


def install(patches: Patches) -> None:
    patches.while_active(lambda: _forget)


def _forget() -> None:
    engine.unsubscribe(_look_ahead)
    with _lock:
        _alive.clear()


def may_matter(tensor: torch.Tensor) -> bool:
    """Return whether a copy of a Function's input is to be kept until ``forward`` has ended."""
    return _is_computed(tensor) and tensor.numel() * tensor.itemsize <= LARGEST_COPY


def note(
    conflicts: Conflicts,
    function: Any,
    args: tuple[Any, ...],
    dirty: Sequence[torch.Tensor],
    log: WriteLog,
    outputs: tuple[Any, ...],
) -> None:
    """Remember the inputs that a ``forward`` has overwritten without marking them."""
    operator = compat.compilers.operator_of(function)
    marked = {plain_key_or_none(given) for given in dirty if any(given is arg for arg in args)}
    noted: list[torch.Tensor] = []
    for position, tensor in enumerate(args):
        if not isinstance(tensor, torch.Tensor) or not _is_computed(tensor):
            continue
        writes = log.writes_to(tensor)
        if plain_key_or_none(tensor) in marked or all(write.shifts for write in writes):
            continue
        where = _where(tensor, log.before(tensor))
        if where is None or any(same_memory(tensor, other) for other in noted):
            continue
        noted.append(tensor)
        report = partial(
            conflicts.input_overwritten,
            operator or function.__name__,
            is_operator=operator is not None,
            position=position,
            shape=tuple(tensor.shape),
            dtype=tensor.dtype,
            version=compat.tensors.version_of(tensor),
            writes=[(write.operation, write.stack) for write in writes],
            stack=of_program(),
            returned=any(isinstance(out, torch.Tensor) and same_memory(out, tensor) for out in outputs),
        )
        overwritten = Unmarked(report, _base(tensor), where)
        with _lock:
            _alive.add(overwritten)
        engine.subscribe(_look_ahead, last=True)  # only now, as it costs time at each backward


def _base(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if (base := compat.tensors.base_of(tensor)) is None else base


def _is_computed(tensor: torch.Tensor) -> bool:  # then a node of its old values exists
    base, needs_grad = _base(tensor), compat.tensors.needs_grad
    # By the base, because reading a written view's `grad_fn` makes a new node.
    return needs_grad(tensor) and needs_grad(base) and compat.graph.has_history(base)


def _where(tensor: torch.Tensor, before: torch.Tensor | None) -> torch.Tensor | None:
    """Return which elements of the base have changed; None if none has, or that is unknown."""
    base = _base(tensor)
    if before is None or before.shape != tensor.shape or base.dtype != tensor.dtype:
        return None
    with torch.no_grad(), compat.dispatcher.unseen_by_torch():
        changed = differing(compat.tensors.physical(tensor), compat.tensors.physical(before))
        if not changed.any():
            return None
        if base is tensor:
            return changed
        elements = compat.tensors.storage_of(tensor).nbytes() // tensor.itemsize
        every = torch.zeros(elements, dtype=torch.bool, device=tensor.device)
        every.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).copy_(changed)
        return every.as_strided(base.size(), base.stride(), base.storage_offset())


def look_ahead(call: EngineCall) -> Callable[[], None] | None:
    """Make a coming backward notice gradients through overwritten inputs. Return how to end this, or None."""
    thread = threading.get_ident()
    with _lock:
        waiting = [mark for mark in _alive if mark.armed and mark.thread == thread]
    graph = call.graph() if waiting and not call.is_internal else None
    if not graph:
        return None
    running = call.runs_of(graph)
    numbers = {mark.number for mark in waiting}
    handles = []
    for node in graph.values():
        for position, (child, output) in enumerate(node.next_functions):
            # The input's own gradient, if requested, is right: the node of the old values doesn't run.
            if id(child) not in running or compat.graph.sequence_number(child) not in numbers:
                continue
            key, number = compat.graph.node_key(child), compat.graph.sequence_number(node)
            for mark in waiting:
                if mark.node == key and mark.output == output and number >= mark.moment:
                    mark.reported = False
                    handles.append(node.register_hook(partial(mark.arrived, position)))

    def end() -> None:
        """Remove the hooks of this call, and disarm the marks if backward was recorded."""
        for handle in handles:
            handle.remove()
        if call.creates_graph:
            # Nodes that backward makes read saved values, not the memory now
            # (test_the_second_derivative_of_what_was_saved_is_no_read).
            for mark in waiting:
                mark.armed = False

    return end


_look_ahead = SimpleNamespace(begin=look_ahead, end=lambda stop, _: stop())
