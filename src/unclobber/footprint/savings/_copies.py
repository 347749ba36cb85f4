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
from .._trace import Operand, Operation, Site, Storage, Trace
from . import _edits
from ._option import Option, change_of
from ._regions import POINTWISE, VIEWS, operands

_COPIES = frozenset({"_to_copy", "clone"})
_MOST = 5
"""Longest chain of calls from a kept tensor back to its source."""


@dataclass(frozen=True)
class _Chain:
    """Calls from a smaller tensor to a kept one."""

    calls: tuple[int, ...]
    """Numbers in ``Trace.functions``, the last one first."""
    kept: Storage
    base: Operand
    result: Operand
    spans: tuple[Span, ...]


def copies(trace: Trace) -> Iterable[Option]:
    """Yield one change for each place that makes such tensors."""
    search = _CopySearch(trace)
    groups: dict[tuple[Site, ...], list[_Chain]] = {}
    for number in search.candidates():
        chain = search.chain(number)
        if chain is not None:
            sites = tuple(trace.site(call) for call in chain.calls)
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


class _CopySearch:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._kept = trace.kept_spans

    def candidates(self) -> Iterable[int]:
        """Yield kept activations that die with their last save."""
        for number, spans in self._kept.items():
            storage = self.trace.storages[number]
            until = spans[-1][1]
            if storage.kind == "activation" and storage.died is not None and storage.died <= until + 1:
                yield number

    def chain(self, number: int) -> _Chain | None:
        """Return the chain of calls back to the source from which the most is saved, or None."""
        best: _Chain | None = None
        result = None
        calls: list[int] = []
        at = number
        while len(calls) < _MOST:
            step = self._step(at)
            if step is None:
                break
            call, base, made = step
            # The first step's result is the kept tensor itself.
            result = made if result is None else result
            calls.append(call)
            spans = self._spans(number, base.storage)
            gain = sum(size * (until - since) for _, since, until, size in spans)
            if gain > 0 and (best is None or gain > _gain(best)):
                best = _Chain(tuple(calls), self.trace.storages[number], base, result, spans)
            at = base.storage
        return best

    def _step(self, number: int) -> tuple[int, Operand, Operand] | None:
        """Return the call that made a storage from one other tensor, a copy or elementwise; with both
        operands. None if none did."""
        trace = self.trace
        maker = trace.maker.get(number)
        # A written tensor can't be made again from its source, nor can the source be used once it is written.
        if maker is None or maker.outer not in trace.inside_function or number in trace.written:
            return None
        if not maker.results or trace.functions[maker.outer].result != number:
            return None
        inside = trace.inside_function[maker.outer]
        read = [operand for op in inside for operand in operands(op)]
        tensors = {operand.storage: operand for operand in read if operand.storage not in _made(inside)}
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

    def _spans(self, number: int, base: int) -> tuple[Span, ...]:
        """Return the ticks and bytes without the kept tensor, but with its source if that was gone."""
        storage, source = self.trace.storages[number], self.trace.storages[base]
        spans: list[Span] = []
        for since, until in self._kept[number]:
            begin = max(since, self.trace.last_read(number)) + 1
            if begin > until:
                continue
            spans.append((number, begin, until, storage.bytes))
            gone = source.died
            if source.kind not in LASTING and gone is not None and gone < until:
                spans.append((base, max(gone + 1, begin), until, -source.bytes))
        return tuple(spans)


def _gain(chain: _Chain) -> int:
    return sum(size * (until - since) for _, since, until, size in chain.spans)


def _made(inside: Iterable[Operation]) -> set[int]:
    return {number for operation in inside for number in operation.makes}
