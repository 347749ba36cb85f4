"""Results that are computed twice from the same tensors, and kept twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...torch_internals import compat
from .._timeline import Span
from .._trace import Operand, Operation, Site, Trace
from ._option import Option, change_of
from ._regions import POINTWISE, PRODUCTS, REDUCTIONS

_SURE = POINTWISE | REDUCTIONS | PRODUCTS | {"addmm", "convolution", "native_layer_norm"}
"""Operations that give the same for the same tensors: none draws random numbers or counts."""


def computed_twice(trace: Trace) -> Iterable[Option]:
    """Yield a change for each place that computes a result a second time, from the same tensors."""
    first: dict[Any, Operation] = {}
    groups: dict[tuple[Site, Site], list[tuple[Operation, tuple[Span, ...]]]] = {}
    for second in trace.forward:
        if second.name not in _SURE or not second.makes:
            continue
        # A write between the two computations could make them differ, so any write excludes the storage.
        if trace.written & {*second.reads, *second.makes}:
            continue
        known = first.setdefault(_computation(second), second)
        here, there = second.outer, known.outer
        if known is second or here is None or there is None:
            continue
        spans = tuple(_spans(trace, second, known))
        if spans:
            groups.setdefault((here.site, there.site), []).append((second, spans))
    for sites, members in groups.items():
        name = members[0][0].name.strip("_")
        change = change_of(
            [second for second, _ in members],
            "twice",
            f"{name} of the same tensors is computed a second time, and kept twice",
            "compute it once, and use the result in both places",
        )
        yield Option(change, tuple(s for _, spans in members for s in spans), same=sites)


def _computation(operation: Operation) -> tuple[Any, ...]:
    leaves = [
        leaf.value if isinstance(leaf, Operand) else repr(leaf)
        for leaf in compat.compilers.tree_leaves(operation.arguments)
    ]
    return operation.name, operation.overload, tuple(leaves)


def _spans(trace: Trace, operation: Operation, known: Operation) -> Iterable[Span]:
    for number, other in zip(operation.makes, known.makes, strict=False):
        storage = trace.storages[number]
        for _, since, until, size in trace.kept_spans.get(number, ()):
            for _, begin, end, _ in trace.kept_spans.get(other, ()):
                if storage.kind == "activation" and max(since, begin) < min(until, end):
                    yield number, max(since, begin) + 1, min(until, end), size
