"""Kept tensors that could be made again from something smaller, or from a tensor that is kept anyway.

A mask that was turned into numbers, a tensor that was converted to a wider dtype, a copy next to what it was
copied from: backward keeps the large one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from .._facts import Sort
from .._timeline import LASTING, Span
from .._trace import FunctionCall, Operand, Site, Storage, Trace
from . import _edits
from ._option import Option, change_of
from ._regions import POINTWISE, VIEWS

_COPIES = frozenset({"_to_copy", "clone"})
_MOST = 5  # longest chain of calls from a kept tensor back to its source


@dataclass(frozen=True)
class _Chain:
    """Calls from a smaller tensor to a kept one."""

    calls: tuple[FunctionCall, ...]  # the last one first
    kept: Storage
    base: Operand
    result: Operand
    spans: tuple[Span, ...]

    @property
    def gain(self) -> int:
        return sum(size * (until - since) for _, since, until, size in self.spans)  # bytes times ticks


def copies(trace: Trace) -> Iterable[Option]:
    """Yield one change for each place that makes such tensors."""
    groups: dict[tuple[Site, ...], list[_Chain]] = {}
    for number, spans in trace.kept_spans.items():
        storage = trace.storages[number]
        # Memory that outlives its saves has a name, too.
        freed = storage.died is not None and storage.died <= spans[-1][2] + 1
        chain = _chain(trace, storage) if storage.kind == "activation" and freed else None
        if chain is not None:
            sites = tuple(call.site for call in chain.calls)
            groups.setdefault(sites, []).append(chain)
    for sites, chains in groups.items():
        first = chains[0]
        sort, title, write = _words(first)
        # Only a single conversion is one expression, which an edit can leave out.
        plain = sort in ("mask", "twice") and len(first.calls) == 1
        edits = _edits.of_conversion(first.kept.stack) if plain else ()
        change = change_of([chain.kept for chain in chains], sort, title, write, edits)
        yield Option(change, tuple(span for chain in chains for span in chain.spans), again=sites)


def _words(chain: _Chain) -> tuple[Sort, str, str]:
    """Return the kind of change, its title and the code or advice for it."""
    wide, narrow = chain.result.dtype.removeprefix("torch."), chain.base.dtype.removeprefix("torch.")
    if narrow == "bool":
        size = chain.kept.bytes // max(prod(chain.result.shape), 1)
        return (
            "mask",
            f"a mask of bools is kept as {wide}, {size} bytes an element instead of one",
            "x * mask with the mask of bools itself, scaled afterwards, or x.masked_fill(~mask, 0)",
        )
    if wide == narrow:
        return (
            "twice",
            "a copy is kept beside what it was copied from",
            "leave the copy out; where its layout is needed, checkpoint() what copies and reads it",
        )
    return (
        "dtype",
        f"kept as {wide}, though it was converted from {narrow}",
        f"compute it in {narrow}, or checkpoint() what converts and reads it",
    )


def _chain(trace: Trace, kept: Storage) -> _Chain | None:
    """Return the chain of calls back to the source from which the most is saved, or None."""
    chains: list[_Chain] = []
    calls: list[FunctionCall] = []
    result = None
    source = kept
    while len(calls) < _MOST and (step := _step(trace, source)) is not None:
        call, base, made = step
        # The first step's result is the kept tensor itself.
        result = made if result is None else result
        calls.append(call)
        source = trace.storages[base.storage]
        spans = tuple(_spans(trace, kept, source))
        chains.append(_Chain(tuple(calls), kept, base, result, spans))
    best = max(chains, key=lambda chain: chain.gain, default=None)
    return best if best is not None and best.gain > 0 else None


def _step(trace: Trace, storage: Storage) -> tuple[FunctionCall, Operand, Operand] | None:
    """Return the call that made a storage from one other tensor, with both operands, or None."""
    maker, number = storage.maker, storage.number
    # A written tensor can't be made again from its source, nor can the source be used once it is written.
    if maker is None or maker.outer is None or number in trace.written:
        return None
    if not maker.results or maker.outer.result != number:
        return None
    inside = maker.outer.operations
    made = {number for operation in inside for number in operation.makes}
    read = [operand for operation in inside for operand in operation.operands]
    tensors = {operand.storage: operand for operand in read if operand.storage not in made}
    result = maker.results[0]
    copied = all(op.name in _COPIES or op.name in VIEWS for op in inside)
    # By the operands, because an operation's result doesn't say yet that it needs a gradient.
    plain = not any(operand.requires_grad for operand in tensors.values())
    derived = plain and all(op.name in POINTWISE | VIEWS or op.name in _COPIES for op in inside)
    if not (copied or derived) or len(tensors) != 1:
        return None
    (base,) = tensors.values()
    if base.storage in trace.written or not result.whole:
        return None
    return maker.outer, base, result


def _spans(trace: Trace, kept: Storage, source: Storage) -> Iterable[Span]:
    """Yield the ticks and bytes without the kept tensor, but with its source if that was gone."""
    for number, since, until, size in trace.kept_spans[kept.number]:
        begin = max(since, kept.last_read) + 1
        if begin <= until:
            yield number, begin, until, size
            if source.kind not in LASTING and source.died is not None and source.died < until:
                yield source.number, max(source.died + 1, begin), until, -source.bytes
