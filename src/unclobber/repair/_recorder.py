"""Write down what each backward call starts from and which gradients it leaves.

Two runs of nearly the same program are compared by these records. A leaf is recognised by its shape,
dtype and values when it was first seen: parameters have no names that survive an edit, yet with the
same seeds they begin with the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..observe import _torch_compat as compat

Key = tuple[Any, ...]


class Enough(BaseException):
    """Ends the program's run after the backward calls that are needed; no ``except Exception`` stops it."""


@dataclass
class Record:
    """One backward call."""

    roots: list[torch.Tensor]
    leaves: list[tuple[Key, torch.Tensor | None]]
    """Every leaf known by then, with a copy of its gradient."""
    results: list[torch.Tensor | None]
    """What ``autograd.grad`` handed back."""


class Recorder:
    """Wraps torch's backward from ``install`` to the end of the process.

    Args:
        stop_after: Raise ``Enough`` after so many calls.
        cut: Keep every graph, and let no gradient through the part of it that an earlier call has
            been through already: what freed it, in torch, is where the gradient stops.
    """

    def __init__(self, stop_after: int | None = None, *, cut: bool = False) -> None:
        self.stop_after = stop_after
        self.cut = cut
        self.records: list[Record] = []
        self.begun = 0
        self.failed_at: int | None = None
        self._leaves: dict[int, tuple[torch.Tensor, Key]] = {}
        self._spent: dict[int, Any] = {}
        self._stopped: set[int] = set()

    def install(self) -> None:
        for home, name in compat.backward_homes():
            setattr(home, name, self._wrapped(getattr(home, name)))

    def _wrapped(self, original: Any) -> Any:
        def run_backward(outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            if compat.in_transform(outputs):
                return original(outputs, *args, **kwargs)
            self.begun += 1
            nth = self.begun
            roots = [root for root in outputs if isinstance(root, torch.Tensor)]
            with compat.unseen_by_torch():
                before = [root.detach().clone() for root in roots]
            nodes = _graph(outputs)
            self._learn(nodes)
            kept = True
            if self.cut:
                # positional in torch: grad_tensors, retain_graph, create_graph, inputs
                kept = bool(args[1]) if len(args) > 1 else bool(kwargs.get("retain_graph"))
                if len(args) > 1:
                    args = (args[0], True, *args[2:])
                self._stop_at_spent(nodes)
            try:
                answer = original(outputs, *args, **kwargs)
            except BaseException:
                if self.failed_at is None:
                    self.failed_at = nth
                raise
            if not kept:
                self._spent.update((id(node), node) for node in nodes if not hasattr(node, "variable"))
            self._write(before, answer)
            if self.stop_after is not None and nth >= self.stop_after:
                raise Enough
            return answer

        return run_backward

    def _learn(self, nodes: list[Any]) -> None:
        for node in nodes:
            leaf = getattr(node, "variable", None)
            if isinstance(leaf, torch.Tensor) and id(leaf) not in self._leaves:
                self._leaves[id(leaf)] = leaf, _key(leaf)

    def _stop_at_spent(self, nodes: list[Any]) -> None:
        for node in nodes:
            if id(node) in self._spent and id(node) not in self._stopped:
                self._stopped.add(id(node))
                node.register_prehook(_nothing)

    def _write(self, roots: list[torch.Tensor], answer: Any) -> None:
        with compat.unseen_by_torch():
            leaves = [(key, _copy(leaf.grad)) for leaf, key in self._leaves.values()]
            results = [_copy(t) for t in answer] if isinstance(answer, (tuple, list)) else []
        self.records.append(Record(roots, leaves, results))


def _nothing(gradients: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
    return tuple(None if gradient is None else torch.zeros_like(gradient) for gradient in gradients)


def _copy(tensor: Any) -> torch.Tensor | None:
    if not isinstance(tensor, torch.Tensor):
        return None
    return tensor.detach().to("cpu", copy=True)


def _key(leaf: torch.Tensor) -> Key:
    with compat.unseen_by_torch():
        values = leaf.detach()
        if values.layout is not torch.strided or not values.numel():
            return (tuple(leaf.shape), str(leaf.dtype))
        wide = values.to(torch.complex128 if values.is_complex() else torch.float64)
        return (tuple(leaf.shape), str(leaf.dtype), complex(wide.sum()), float(wide.abs().square().sum()))


def _graph(outputs: Sequence[Any]) -> list[Any]:
    """The nodes that backward may visit, each once."""
    todo = [root for root in map(_node_of, outputs) if root is not None]
    seen: dict[int, Any] = {}
    while todo:
        node = todo.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            todo.extend(child for child, _ in node.next_functions if child is not None)
    return list(seen.values())


def _node_of(root: Any) -> Any:
    if isinstance(root, torch.Tensor):
        if not root.requires_grad or compat.why_unusable(root) is not None:
            return None
        return torch.autograd.graph.get_gradient_edge(root).node
    return getattr(root, "node", None)


# --- comparing ------------------------------------------------------------------------------------

ROUNDING = 32
"""Two values agree if they differ by at most so many machine epsilons of the tensor's largest
element: room for another order of summation, and for nothing else."""


@dataclass
class Difference:
    """How two runs differ."""

    why: str = ""
    compared: int = 0
    leaves: int = 0
    gradients: int = 0
    largest: float = 0.0


@dataclass
class Story:
    """All that one run has recorded."""

    records: list[Record]
    state: dict[str, torch.Tensor]
    """Parameters and buffers of the modules that the script's global names hold, at the end."""
    ending: str


def state_of(names: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Copies of the parameters and buffers of all modules among a script's globals."""
    found = {}
    with compat.unseen_by_torch():
        for name, value in names.items():
            if isinstance(value, torch.nn.Module):
                tensors = [*value.named_parameters(), *value.named_buffers()]
                found.update({f"{name}.{key}": copy for key, t in tensors if (copy := _copy(t)) is not None})
    return found


def compare_stories(reference: Story, candidate: Story, until: int) -> Difference:
    """Compare backward calls, then what the modules hold where both runs ended at the same place."""
    found = compare(reference.records, candidate.records, until)
    if not found.why and (reference.ending, len(reference.records)) == (
        candidate.ending,
        len(candidate.records),
    ):
        for name in reference.state.keys() & candidate.state.keys():
            if not _agree(reference.state[name], candidate.state[name], found):
                found.why = f"another value of {name} at the end"
    return found


def compare(reference: list[Record], candidate: list[Record], until: int) -> Difference:
    """Compare backward calls: all up to ``until``, which both must have reached, and those after it
    which both have. ``why`` stays empty where they agree."""
    found = Difference()
    if len(reference) < until or len(candidate) < until:
        found.why = f"backward call {until} was not reached"
        return found
    for number in range(min(len(reference), len(candidate))):
        one, other = reference[number], candidate[number]
        found.why = (
            _compare_lists(one.roots, other.roots, found, "loss")
            or _compare_lists(one.results, other.results, found, "result of autograd.grad")
            or _compare_leaves(one, other, found)
        )
        if found.why:
            found.why += f" at backward call {number + 1}"
            return found
        found.compared += 1
        found.gradients += sum(result is not None for result in other.results)
    return found


def _compare_lists(one: Sequence[Any], other: Sequence[Any], found: Difference, what: str) -> str:
    if len(one) != len(other):
        return f"{len(other)} instead of {len(one)} of the {what}"
    for a, b in zip(one, other, strict=True):
        if (a is None) != (b is None) or (a is not None and not _agree(a, b, found)):
            return f"another {what}"
    return ""


def _compare_leaves(one: Record, other: Record, found: Difference) -> str:
    mine, theirs = _by_key(one), _by_key(other)
    leaves = gradients = 0
    for key in mine.keys() | theirs.keys():
        a, b = mine.get(key, []), theirs.get(key, [])
        # A leaf that only one side reaches is fine as long as nothing has arrived there.
        a, b = [g for g in a if _counts(g)], [g for g in b if _counts(g)]
        if len(a) != len(b):
            return "another set of leaves with a gradient"
        leaves += max(len(mine.get(key, [])), len(theirs.get(key, [])))
        gradients += len(a)
        # Leaves that began with equal values can't be told apart: any pairing that agrees will do.
        for gradient in a:
            partner = next((i for i, g in enumerate(b) if _agree(gradient, g, found)), None)
            if partner is None:
                return f"another gradient of a leaf of shape {list(key[0])}"
            del b[partner]
    found.leaves = max(found.leaves, leaves)
    found.gradients += gradients
    return ""


def _by_key(record: Record) -> dict[Key, list[torch.Tensor | None]]:
    groups: dict[Key, list[torch.Tensor | None]] = {}
    for key, gradient in record.leaves:
        groups.setdefault(key, []).append(gradient)
    return groups


def _counts(gradient: torch.Tensor | None) -> bool:
    return gradient is not None and bool(gradient.to_dense().count_nonzero())


def _agree(one: torch.Tensor | None, other: torch.Tensor | None, found: Difference) -> bool:
    if one is None or other is None:
        return one is other
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    one, other = one.to_dense().cpu(), other.to_dense().cpu()
    if torch.equal(one, other):
        return True
    if not (one.is_floating_point() or one.is_complex()):
        return False
    if not torch.equal(one.isfinite(), other.isfinite()):
        return False
    if not torch.equal(one.isnan(), other.isnan()):
        return False
    finite = one.isfinite()
    if not torch.equal(one[~finite].nan_to_num(), other[~finite].nan_to_num()):
        return False
    wide = torch.complex128 if one.is_complex() else torch.float64
    a, b = one[finite].to(wide), other[finite].to(wide)
    if not a.numel():
        return True
    scale = float(torch.maximum(a.abs().max(), b.abs().max()))
    relative = float((a - b).abs().max()) / scale if scale else 0.0
    if relative > ROUNDING * torch.finfo(one.dtype).eps:
        return False
    found.largest = max(found.largest, relative)
    return True
