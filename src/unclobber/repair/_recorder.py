"""Records of the roots of each backward call and of the gradients it leaves.

Two runs of nearly the same program are compared by these records. A leaf is recognised by its shape, dtype
and values when it was first seen: parameters have no names that survive an edit, but with equal seeds they
begin with equal values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ..torch_internals import compat
from ..torch_internals.agreement import compared
from ..torch_internals.engine import EngineCall
from ._job import Comparison

Key = tuple[Any, ...]
AddedTo = tuple[Key, torch.Tensor | None, torch.Tensor | None]
"""A leaf, with copies of its gradient before and after a call."""


class Enough(BaseException):
    """Ends the program's run after the needed backward calls; no ``except Exception`` stops it."""


@dataclass
class BackwardRecord:
    """The record of one backward call."""

    roots: list[torch.Tensor]
    leaves: list[tuple[Key, torch.Tensor | None]]  # every leaf known by then, with a copy of its gradient
    results: list[torch.Tensor | None]  # the return values of ``autograd.grad``
    added: list[AddedTo] = field(default_factory=list)
    """The leaves that this call reaches, of its ``inputs`` if it names them, in the graph's order."""
    has_inputs: bool = False  # whether the call named the leaves (``inputs=``) that get a gradient


class _RunningBackward(NamedTuple):
    """A running call."""

    nth: int
    recorded: bool
    nodes: list[Any]
    roots: list[torch.Tensor]  # copies of its roots
    before: dict[int, torch.Tensor | None]  # copies of the gradients of the reached leaves, by leaf id
    spends: bool  # whether the graph counts as freed when the call is done


@dataclass(eq=False)
class Recorder:
    """Listener of backward calls, from ``engine.subscribe`` to the end of the process."""

    stop_after: int | None = None  # number of calls after which ``Enough`` is raised
    cut: bool = False
    """Whether to keep every graph, and stop gradients at the part of it that an earlier call has run and that
    torch would have freed."""
    after_each: Callable[[int], bool] = lambda _: False
    """Called with the number of each call when it is done; returns True to end the run."""
    to_end: bool = False  # whether the run goes on after ``stop_after`` calls, unrecorded
    records: list[BackwardRecord] = field(default_factory=list)
    started: int = 0
    failed_at: int | None = None
    leaves: dict[int, tuple[torch.Tensor, Key]] = field(default_factory=dict)

    def begin(self, call: EngineCall) -> _RunningBackward | None:
        """Record the roots of a backward that is about to run; None if torch itself makes the call."""
        if call.is_internal:
            return None
        self.started += 1
        recorded = self.stop_after is None or self.started <= self.stop_after
        nodes = list(compat.graph.nodes_below(map(_node_of, call.roots if recorded or self.cut else ())))
        roots: list[torch.Tensor] = []
        before: dict[int, torch.Tensor | None] = {}
        if recorded:
            for leaf in (getattr(node, "variable", None) for node in nodes):
                if isinstance(leaf, torch.Tensor) and id(leaf) not in self.leaves:
                    self.leaves[id(leaf)] = leaf, _key(leaf)
            with compat.dispatcher.unseen_by_torch():
                tensors = (root for root in call.roots if isinstance(root, torch.Tensor))
                roots = [root.detach().clone() for root in tensors if not root.is_meta]
                reached = (id(getattr(node, "variable", None)) for node in nodes)
                named = set(map(id, call.inputs)) or self.leaves.keys()
                leaves = [leaf for leaf in reached if leaf in self.leaves and leaf in named]
                before = {leaf: _copy(self.leaves[leaf][0].grad) for leaf in leaves}
        spends = self.cut and not call.keeps_graph
        running = _RunningBackward(self.started, recorded, nodes, roots, before, spends)
        if self.cut:
            call.keep_graph()
            _stop_at_freed(nodes)
        return running

    def end(self, running: _RunningBackward, call: EngineCall) -> None:
        """Record the gradients of a backward that has ended. Raise `Enough` if the run need not go on."""
        if not call.done:
            if self.failed_at is None:
                self.failed_at = running.nth
            return
        if running.spends:
            for node in running.nodes:
                if not hasattr(node, "variable"):
                    node.metadata[_FREED] = True
        if running.recorded:
            self._write(running, call)
        if self.after_each(running.nth) or (running.nth == self.stop_after and not self.to_end):
            raise Enough

    def _write(self, running: _RunningBackward, call: EngineCall) -> None:
        with compat.dispatcher.unseen_by_torch():
            after = {known: (key, _copy(leaf.grad)) for known, (leaf, key) in self.leaves.items()}
            results = [_copy(t) for t in call.answer] if isinstance(call.answer, (tuple, list)) else []
        added = [(after[known][0], before, after[known][1]) for known, before in running.before.items()]
        record = BackwardRecord(running.roots, list(after.values()), results, added, bool(call.inputs))
        self.records.append(record)


_FREED = "unclobber freed"
_STOPPED = "unclobber stopped"
"""Keys of ``Node.metadata`` that mark a node as run by an earlier call, and as stopped for gradients. The
recorder holds no nodes, so that graphs die when the program drops them."""


def _stop_at_freed(nodes: list[Any]) -> None:
    for node in nodes:
        if _FREED in node.metadata and _STOPPED not in node.metadata:
            node.metadata[_STOPPED] = True
            node.register_prehook(lambda given: tuple(g if g is None else torch.zeros_like(g) for g in given))


def _copy(tensor: Any) -> torch.Tensor | None:
    if not isinstance(tensor, torch.Tensor) or tensor.is_meta:
        return None
    # On the CPU, because another process compares the records.
    return tensor.detach().to("cpu", copy=True)


def _key(leaf: torch.Tensor) -> Key:
    """Return the key of a leaf: shape, dtype, and two sums of its current values."""
    with compat.dispatcher.unseen_by_torch():
        values = leaf.detach()
        if values.is_meta or values.layout is not torch.strided or not values.numel():
            return (tuple(leaf.shape), str(leaf.dtype))
        # In double precision, because a sum in float16 would overflow.
        wide = values.to(torch.complex128 if values.is_complex() else torch.float64)
        sums = complex(wide.sum()), float(wide.abs().square().sum())
        # As text, because a NaN does not equal itself.
        return (tuple(leaf.shape), str(leaf.dtype), repr(sums))


def _node_of(root: Any) -> Any:
    if isinstance(root, torch.Tensor):
        if not root.requires_grad or compat.graph.why_unusable(root) is not None:
            return None
        return torch.autograd.graph.get_gradient_edge(root).node
    return getattr(root, "node", None)


# --- comparing ------------------------------------------------------------------------------------


def compare(reference: list[BackwardRecord], candidate: list[BackwardRecord], until: int) -> Comparison:
    """Compare backward calls: all up to ``until``, which both must have reached, and later common ones."""
    if len(reference) < until or len(candidate) < until:
        return Comparison(f"backward call {until} was not reached", reached=False)
    total = Comparison()
    for number, (mine, other) in enumerate(zip(reference, candidate, strict=False), 1):
        mismatch = (
            _compare_lists(mine.roots, other.roots, total, "loss")
            or _compare_lists(mine.results, other.results, total, "result of autograd.grad")
            or _compare_leaves(mine, other, total)
        )
        if mismatch:
            total.why = f"{mismatch} at backward call {number}"
            return total
        total.compared += 1
        total.gradients += sum(result is not None for result in other.results)
    return total


def compare_moved(reference: list[BackwardRecord], candidate: list[BackwardRecord], until: int) -> Comparison:
    """Compare backward calls of a candidate that makes them in another order.

    A call is recognised by its losses. What it adds to each gradient counts, not what was left there before.
    """
    total, left, missing = Comparison(), list(candidate), 0
    for number, mine in enumerate(reference):
        at = next((at for at, other in enumerate(left) if _adds_the_same(mine, other, total)), None)
        if at is None:
            missing += 1
            # In another order one of the last calls may not have come yet when the candidate was ended.
            if number < until or missing > 1:
                total.why = f"another loss or gradient of call {number + 1}"
                break
            continue
        partner = left.pop(at)
        total.compared += not missing
        gradients = sum(map(_counts, map(_added, partner.added)))
        total.gradients += gradients
        total.leaves = max(total.leaves, gradients)
    return total


def _adds_the_same(mine: BackwardRecord, other: BackwardRecord, total: Comparison) -> bool:
    """Return whether two calls have the same losses and results, and add the same to each gradient.

    A call that now names its ``inputs`` may leave out other leaves.
    """
    pairs = (mine.roots, other.roots), (mine.results, other.results)
    if any(_compare_lists(first, second, total, "") for first, second in pairs):
        return False
    limited = other.has_inputs and not mine.has_inputs
    for own, their in _same_leaves(mine.added, other.added):
        added = _added(own)
        # The sum and not the difference, whose rounding error may exceed what this call adds.
        before = None if their is None else their[1]
        after = before if added is None else added if before is None else before + added
        if their is not None and _agree(after, their[2], total):
            continue
        if _counts(_added(their)) or (_counts(added) and not (limited and their is None)):
            return False
    return True


def _same_leaves(mine: list[AddedTo], theirs: list[AddedTo]) -> Iterator[tuple[AddedTo | None, ...]]:
    """Yield the rows of two calls leaf by leaf: None for a leaf that the other call does not reach.

    A leaf is the one with the same first values. The moved call may see one before an update of its values:
    such leaves, and those with equal first values, are matched in the order of the graph.
    """
    own, left = dict(enumerate(mine)), dict(enumerate(theirs))
    for length in (None, 2):  # the whole key, then shape and dtype
        for at, row in list(own.items()):
            alike = [n for n, other in left.items() if other[0][:length] == row[0][:length]]
            if alike:
                yield own.pop(at), left.pop(min(alike, key=lambda n: abs(n - at)))
    yield from ((row, None) for row in own.values())
    yield from ((None, row) for row in left.values())


def _added(row: AddedTo | None) -> torch.Tensor | None:
    """Return what a call added to a gradient; None if that is none after it, or no leaf of the call."""
    if row is None or row[2] is None:
        return None
    return row[2] if row[1] is None else row[2] - row[1]


def _compare_lists(mine: Sequence[Any], other: Sequence[Any], total: Comparison, what: str) -> str:
    if len(mine) != len(other):
        return f"{len(other)} instead of {len(mine)} of the {what}"
    agree = all(_agree(a, b, total) for a, b in zip(mine, other, strict=True))
    return "" if agree else f"another {what}"


def _compare_leaves(reference: BackwardRecord, other: BackwardRecord, total: Comparison) -> str:
    """Return the first difference of two calls' leaf gradients, in words; empty if they agree."""
    mine, theirs = _by_key(reference), _by_key(other)
    leaves = gradients = 0
    for key in mine.keys() | theirs.keys():
        a, b = mine.get(key, []), theirs.get(key, [])
        leaves += max(len(a), len(b))
        # A leaf that only one side reaches is no difference as long as its gradient is zero or None
        # (tests/unit/repair/test_recorder.py).
        a, b = [g for g in a if _counts(g)], [g for g in b if _counts(g)]
        if len(a) != len(b):
            return "another set of leaves with a gradient"
        gradients += len(a)
        # Leaves with equal first values are indistinguishable, so any pairing whose gradients agree will do
        # (tests/unit/repair/test_recorder.py).
        for gradient in a:
            partner = next((i for i, g in enumerate(b) if _agree(gradient, g, total)), None)
            if partner is None:
                return f"another gradient of a leaf of shape {list(key[0])}"
            del b[partner]
    total.leaves = max(total.leaves, leaves)
    total.gradients += gradients
    return ""


def _agree(first: torch.Tensor | None, other: torch.Tensor | None, total: Comparison) -> bool:
    """Return whether two tensors agree up to rounding; record the largest difference in ``total``."""
    if first is None or other is None:
        return first is other
    difference = compared(first, other)
    if difference.is_rounding:
        total.largest_difference = max(total.largest_difference, difference.relative)
    return difference.is_rounding


def _by_key(record: BackwardRecord) -> dict[Key, list[torch.Tensor | None]]:
    groups: dict[Key, list[torch.Tensor | None]] = {}
    for key, gradient in record.leaves:
        groups.setdefault(key, []).append(gradient)
    return groups


def _counts(gradient: torch.Tensor | None) -> bool:
    return gradient is not None and bool(gradient.to_dense().count_nonzero())
