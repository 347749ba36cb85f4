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
from typing import Any

import torch

from ..record import LARGEST_COPY, differing
from ..source import frames
from ..torch_internals import compat
from ..torch_internals.engine import EngineCall, engine
from ..torch_internals.patches import Patches
from .conflicts import Conflicts, InputOverwritten
from .graph import needed, reachable
from .write_log import WriteLog, storage_of


class Unmarked:
    """An input that was overwritten. Lives as long as the node that made its old values."""

    __slots__ = (
        "__weakref__", "armed", "conflict", "conflicts", "moment", "node", "number", "output", "thread",
        "told", "where",
    )  # fmt: skip

    def __init__(
        self, conflicts: Conflicts, conflict: InputOverwritten, base: torch.Tensor, where: torch.Tensor
    ) -> None:
        self.conflicts = conflicts
        self.conflict = conflict
        """What is to be told."""
        self.where = where
        """True for each element of the base that has changed; of the base's shape."""
        node: Any = compat.grad_fn(base)
        node.register_hook(self.ran)
        self.node, self.number = compat.node_key(node), compat.sequence_number(node)
        self.output = base.output_nr
        self.moment = compat.next_sequence_number()
        """Nodes from this number on were made after the Function had run, by the same thread."""
        self.thread = threading.get_ident()
        self.armed = True
        self.told = False

    def ran(self, *_: Any) -> None:
        """The node holds this as a hook of its own: in its ``metadata`` a program would see it."""

    def arrived(self, gradient: torch.Tensor | None) -> None:
        """An operation that read the input afterwards hands on the gradient of it."""
        if self.told or gradient is None or gradient.shape != self.where.shape:
            return
        if not compat.is_plain(gradient):
            return
        with torch.no_grad(), compat.unseen_by_torch():
            wrong = bool((gradient.ne(0) & self.where).any())
        if wrong:
            self.told = True
            self.conflicts.on(self.conflict)


_alive: weakref.WeakSet[Unmarked] = weakref.WeakSet()
_lock = threading.Lock()


class _LookAhead:
    """Has backward calls look for gradients that come through an overwritten input."""

    def begin(self, call: EngineCall) -> Callable[[], None] | None:
        return None if call.is_internal or not _alive else look_ahead(call)

    def end(self, begun: Callable[[], None] | None, call: EngineCall) -> None:
        if begun is not None:
            begun()


def install(patches: Patches) -> None:
    """Be told of backward calls while somebody looks."""
    patches.when_awake(_begin)


def _begin() -> Callable[[], None]:
    end = engine.subscription(_LookAhead())

    def forget() -> None:
        end()
        _alive.clear()

    return forget


def may_matter(tensor: torch.Tensor) -> bool:
    """Whether the old values of a Function's input are to be kept until ``forward`` has ended."""
    return _is_computed(tensor) and tensor.numel() * tensor.itemsize <= LARGEST_COPY


def note(
    conflicts: Conflicts,
    function: Any,
    args: tuple[Any, ...],
    dirty: Sequence[torch.Tensor],
    log: WriteLog,
    outputs: tuple[Any, ...],
) -> None:
    """A ``forward`` has returned that wrote to its inputs.

    Args:
        conflicts: Whom to tell.
        function: The Function's class.
        args: What it was applied to.
        dirty: What it has marked.
        log: Its writes to ``args``, with what was there before.
        outputs: What ``apply`` returns.
    """
    operator = compat.operator_of(function)
    marked = {storage_of(one) for one in dirty if any(one is arg for arg in args)}
    for position, tensor in enumerate(args):
        if not isinstance(tensor, torch.Tensor) or not _is_computed(tensor):
            continue
        key = storage_of(tensor)
        writes = [write for write in log.writes if write.key == key]
        if not writes or key in marked or all(write.shifts for write in writes):
            continue
        marked.add(key)  # one finding for one memory
        where = _where(tensor, writes[0].before)
        if where is None:
            continue
        returned = any(_is_same(output, tensor) for output in outputs)
        conflict = InputOverwritten(
            operator or function.__name__,
            operator is not None,
            position,
            tuple(tensor.shape),
            tensor.dtype,
            tensor._version,
            writes,
            frames.of_program(),
            returned,
        )
        one = Unmarked(conflicts, conflict, _base(tensor), where)
        with _lock:
            _alive.add(one)


def _base(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor._base is None else tensor._base


def _is_computed(tensor: torch.Tensor) -> bool:
    """Whether its history is that of an operation, and can be asked for: a view's is made anew when it is."""
    base = _base(tensor)
    return tensor.requires_grad and base.requires_grad and compat.has_history(base)


def _is_same(output: Any, tensor: torch.Tensor) -> bool:
    return (
        isinstance(output, torch.Tensor)
        and storage_of(output) == storage_of(tensor)
        and output.shape == tensor.shape
        and output.stride() == tensor.stride()
        and output.storage_offset() == tensor.storage_offset()
    )


def _where(tensor: torch.Tensor, before: torch.Tensor | None) -> torch.Tensor | None:
    """Which elements of the base have changed; None where none has, or nothing is known of it."""
    base = _base(tensor)
    if before is None or before.shape != tensor.shape or base.dtype != tensor.dtype:
        return None
    with torch.no_grad(), compat.unseen_by_torch():
        changed = differing(compat.physical(tensor), compat.physical(before))
        if not changed.any():
            return None
        if base is tensor:
            return changed
        elements = tensor.untyped_storage().nbytes() // tensor.itemsize
        every = torch.zeros(elements, dtype=torch.bool, device=tensor.device)
        every.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).copy_(changed)
        return every.as_strided(base.size(), base.stride(), base.storage_offset())


def look_ahead(call: EngineCall) -> Callable[[], None] | None:
    """Before a backward call: see to it that gradients through overwritten inputs are noticed.

    Returns:
        What ends that when the call is over; None where there is nothing to notice.
    """
    if not _alive:
        return None
    thread = threading.get_ident()
    with _lock:
        waiting = [one for one in _alive if one.armed and one.thread == thread]
    graph = reachable(call) if waiting else None
    if not graph:
        return None
    running = needed(graph, call.inputs) if call.inputs else graph.keys()
    numbers = {one.number for one in waiting}
    handles = []
    for node in graph.values():
        for position, (child, output) in enumerate(node.next_functions):
            # The gradient of the input itself, where that is asked for, is right: no other node gets it.
            if child is None or compat.sequence_number(child) not in numbers or id(child) not in running:
                continue
            key, number = compat.node_key(child), compat.sequence_number(node)
            for one in waiting:
                if one.node == key and one.output == output and number >= one.moment:
                    one.told = False
                    handles.append(node.register_hook(_noticed(one, position)))

    def end() -> None:
        for handle in handles:
            handle.remove()
        if call.creates_graph:
            for one in waiting:  # nodes that backward makes read what was saved, not what is there
                one.armed = False

    return end


def _noticed(one: Unmarked, position: int) -> Callable[[Any, Any], None]:
    def arrived(gradients: Sequence[torch.Tensor | None], _: Any) -> None:
        one.arrived(gradients[position])

    return arrived
