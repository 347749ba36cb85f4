"""Memory that a name, or a graph that is not freed, holds at the peak though no code reads it any more."""

from __future__ import annotations

from collections.abc import Iterable

from ...model.text import plural
from .. import _places
from .._facts import Change
from .._names import HeldName
from .._timeline import BytesOverTime, kept_spans
from .._trace import Storage, Trace, modules_of
from ._calls import ForwardCalls
from ._option import Option, Release, Span, died


def held(trace: Trace, line: BytesOverTime) -> Iterable[Option]:
    """Yield a change for each variable; for memory without a known variable, one for the line that made
    it."""
    calls = ForwardCalls(trace)
    # Reversed, so that the first name of a storage wins.
    by_value = {name.storage: name for name in reversed(trace.names)}
    by_graph = {number: name for name in reversed(trace.names) for number in name.keeps}
    named: dict[tuple[str, bool], list[tuple[Storage, HeldName]]] = {}
    unnamed: dict[tuple[object, ...], list[Storage]] = {}
    for storage in _idle(trace, line):
        graph = by_graph.get(storage.number)
        # The graph first: giving up a value would leave the saves of its graph alive.
        holder = graph or by_value.get(storage.number)
        if holder is None:
            unnamed.setdefault(_places.key(storage.stack), []).append(storage)
        else:
            named.setdefault((holder.variable, graph is not None), []).append((storage, holder))
    for (variable, of_graph), members in named.items():
        yield _by_name(trace, calls, variable, members, graph=of_graph)
    kept = kept_spans(trace)
    for storages in unnamed.values():
        yield _by_place(trace, storages, graph=any(storage.number in kept for storage in storages))


def _idle(trace: Trace, line: BytesOverTime) -> Iterable[Storage]:
    """Yield activations that are alive at the peak, though neither this backward nor an operation reads
    them later."""
    peak = line.peak()
    kept = kept_spans(trace)
    # Saves that this backward's own graph holds and never unpacked are left out: `_unneeded` reports those.
    unread = {save.storage for save in trace.saves if save.node is not None and save.needed is None}
    for storage in trace.storages:
        alive = storage.born <= peak <= died(storage, trace)
        if storage.kind != "activation" or not alive or not storage.stack or storage.last_use >= peak:
            continue
        spans = kept.get(storage.number, ())
        if storage.number not in unread and not any(a <= peak <= b < trace.tick for a, b in spans):
            yield storage


def _by_name(
    trace: Trace, calls: ForwardCalls, variable: str, members: list[tuple[Storage, HeldName]], *, graph: bool
) -> Option:
    """Return the change for one variable that holds memory, or keeps a graph that does."""
    storages = [storage for storage, _ in members]
    holders = list(dict.fromkeys(holder for _, holder in members))
    releases = [_release(calls, holder.storage, graph) for holder in holders]
    whole = tuple(release for release in releases if release is not None)
    several = f" ({plural(len(holders), 'tensor')})" if len(holders) > 1 else ""
    if graph:
        title = f"{variable}{several} keeps the graph that made it, which this backward doesn't free"
        write = f"keep x.detach() in {variable}, or a number (x.item())"
    else:
        title = f"{variable}{several} is held across backward, which does not read it"
        write = _without(variable, several=len(holders) > 1 or "[" in holders[0].name)
    known = len(whole) == len(releases)
    change = Change(
        sort="held",
        title=title,
        write=write,
        place=_places.place(storages[0].stack),
        modules=(),
        times=len(storages),
        why_untried=None if known else "it was made by no call that is recorded",
    )
    return Option(change, _spans(trace, storages), releases=whole if known else ())


def _without(variable: str, *, several: bool) -> str:
    """Return the advice for a variable that holds values."""
    if several:
        return f"keep numbers in {variable} (x.item(), x.mean().item()), or clear it before backward"
    if variable.isidentifier():
        return f"del {variable} before backward, unless it is read later"
    return f"take what is needed of {variable.partition('.')[0]}, and del it before backward"


def _release(calls: ForwardCalls, number: int, graph: bool) -> Release | None:
    """Return how a run lets go of a tensor after its last read; None if no recorded call made it."""
    made = calls.of(calls.maker.get(number))
    reader = calls.reader.get(number)
    after = made if reader is None else calls.of(reader)
    return None if made is None or after is None else Release(made, after, graph)


def _by_place(trace: Trace, storages: list[Storage], *, graph: bool) -> Option:
    """Return the change for memory that one line made and no known variable holds."""
    title = "held across backward, which does not read it"
    if graph:
        title = "a graph that is not freed holds it"
    change = Change(
        sort="held",
        title=title,
        write="keep loss.item() or x.detach() instead"
        if graph
        else "del the name before backward, where it is last used",
        place=_places.place(storages[0].stack),
        modules=modules_of(storages),
        times=len(storages),
        why_untried="no variable of the running functions leads to it",
    )
    return Option(change, _spans(trace, storages))


def _spans(trace: Trace, storages: list[Storage]) -> tuple[Span, ...]:
    return tuple((s.number, s.last_use + 1, died(s, trace), s.bytes) for s in storages)
