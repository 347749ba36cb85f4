"""Memory that is held for nothing: by a name, or a graph that is not freed, though no code reads it any more
at the peak, or by saves for gradients that the program doesn't request; and runs in which a name gives it up.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...model.text import listing, plural
from ...torch_internals import compat
from .. import _places
from .._names import HeldName
from .._recorder import MemoryRecorder
from .._timeline import Span
from .._trace import PackedSave, Site, Storage, Trace, grouped
from ._option import Option, Release, SavesAt, change_of
from ._sites import SitesMode


@dataclass(frozen=True)
class _Group:
    """Memory that the same names hold."""

    graph: bool  # whether their graphs hold it, not their values
    storages: list[Storage]
    holders: dict[HeldName, None]

    @property
    def variables(self) -> dict[str, bool]:  # each with whether it is a container
        return {name.variable: name.variable != name.name for name in self.holders}


def held(trace: Trace) -> Iterable[Option]:
    """Yield a change for each variable; without a known variable, one for the line that made the memory."""
    groups: list[_Group] = []
    unnamed: dict[tuple[object, ...], list[Storage]] = {}
    # A gradient penalty's backward comes before the loss is whole: the next one reads what is held.
    for storage in () if trace.differentiable else _idle(trace):
        graph = [name for name in trace.names if storage.number in name.keeps]
        # The graph first: giving up a value would leave the saves of its graph alive.
        holders = graph or [name for name in trace.names if name.storage == storage.number]
        if not holders:
            unnamed.setdefault(_places.key(storage.stack), []).append(storage)
            continue
        # All that share a name, because memory goes with the last of its names.
        group = _Group(bool(graph), [storage], dict.fromkeys(holders))
        for other in [other for other in groups if other.graph == group.graph]:
            if group.variables.keys() & other.variables.keys():
                groups.remove(other)
                group = _Group(
                    group.graph, other.storages + group.storages, {**other.holders, **group.holders}
                )
        groups.append(group)
    for group in groups:
        yield _by_name(trace, group)
    for storages in unnamed.values():
        yield _by_place(trace, storages)


def _idle(trace: Trace) -> Iterable[Storage]:
    """Yield activations alive at the peak that neither this backward nor an operation reads later."""
    peak = trace.bytes.peak()
    kept, first_save = trace.kept_spans, min((save.tick for save in trace.saves), default=0)
    # Saves that this backward's own graph holds and never unpacked are left out: `unneeded` reports those.
    unread = {save.storage for save in trace.saves if save.node is not None and save.needed is None}
    for storage in trace.storages:
        alive = storage.born <= peak <= trace.end(storage)
        if storage.kind != "activation" or not alive or not storage.stack or storage.last_use >= peak:
            continue
        # What was there before the forward, and was not read yet, is for later: a momentum by hand.
        if storage.reader is None and storage.born <= first_save:
            continue
        spans = kept.get(storage.number, ())
        if storage not in unread and not any(a <= peak <= b < trace.tick for _, a, b, _ in spans):
            yield storage


def _by_name(trace: Trace, group: _Group) -> Option:
    """Return the change for variables that hold memory, or keep a graph that does."""
    names = listing(list(group.variables), limit=3)
    numbers = list(dict.fromkeys(holder.storage for holder in group.holders))
    releases = [_release(trace, number, group.graph) for number in numbers]
    whole = tuple(release for release in releases if release is not None)
    several = f" ({plural(len(numbers), 'tensor')})" if len(numbers) > 1 else ""
    is_, it, keeps = ("is", "it", "keeps") if len(group.variables) == 1 else ("are", "them", "keep")
    if group.graph:
        title = f"{names}{several} {keeps} the graph that made it, which this backward doesn't free"
        write = f"keep x.detach() in {names}, or a number (x.item()), unless a later backward needs the graph"
    else:
        title = f"{names}{several} {is_} held in backward, which reads {it} no more at the peak"
        write = _without(group.variables)
    known = len(whole) == len(releases)
    untried = None if known else "it was made by no call that is recorded"
    change = change_of(group.storages, "held", title, write, in_modules=False, why_untried=untried)
    return Option(change, _spans(trace, group.storages), releases=whole if known else ())


def _without(variables: dict[str, bool]) -> str:
    """Return the advice for variables that hold values, each with whether it is a container."""
    containers = listing([name for name, container in variables.items() if container])
    plain = [name for name, container in variables.items() if not container and name.isidentifier()]
    objects = dict.fromkeys(
        name.partition(".")[0] for name in variables if not variables[name] and not name.isidentifier()
    )
    advice = (
        [f"clear {containers} (or keep numbers there, x.item(), if no loss is made of them)"]
        if containers
        else []
    )
    advice += [f"take what is needed of {listing(list(objects))}, and del it"] if objects else []
    advice += [f"del {', '.join(plain)}"] if plain else []
    unless = f", unless {'it is' if len(plain) == 1 else 'they are'} read later" if plain else ""
    return f"{', and '.join(advice)} before backward{unless}"


def _release(trace: Trace, number: int, graph: bool) -> Release | None:
    storage = trace.storages[number]
    made = None if storage.maker is None else trace.site_calls.get(storage.maker.outer)
    after = made if storage.reader is None else trace.site_calls.get(storage.reader.outer)
    return None if made is None or after is None else Release(made, after, graph)


def _by_place(trace: Trace, storages: list[Storage]) -> Option:
    """Return the change for memory that one line made and no known variable holds."""
    title, write = (
        "held in backward, which reads it no more at the peak",
        "del the name before backward, where it is last used",
    )
    untried = "no variable of the running functions leads to it"
    if trace.retained and any(save.node is not None for storage in storages for save in storage.saves):
        title = "retain_graph=True holds it after backward has read it"
        write = "call backward once on the sum of the losses, or leave retain_graph out if none follows"
        untried = "whether a later backward needs it is not recorded"
    elif any(storage.saves for storage in storages):
        title, write = "a graph that is not freed holds it", "keep loss.item() or x.detach() instead"
    return Option(change_of(storages, "held", title, write, why_untried=untried), _spans(trace, storages))


def _spans(trace: Trace, storages: list[Storage]) -> tuple[Span, ...]:
    return tuple(trace.span(storage, storage.last_use + 1) for storage in storages)


# --- saves that backward doesn't read ----------------------------------------------------------------
def unneeded(trace: Trace) -> Iterable[Option]:
    """Yield a change for each line that keeps tensors which this backward doesn't read."""
    # Saves of another graph are not this backward's to read.
    here = [save for save in trace.saves if save.node is not None and save.tick > trace.start]
    activations = [save for save in here if save.storage.kind == "activation"]
    by_storage = grouped(activations, lambda save: save.storage).items()
    unread = [member for member in by_storage if all(save.needed is None for save in member[1])]
    read = {_line_and_shape(save) for save in trace.saves if save.needed is not None}
    for members in grouped(unread, lambda member: _places.key(member[1][0].stack)).values():
        every = {_line_and_shape(save) for _, saves in members for save in saves}
        # A run drops saves by line and shape, so none of them may be one that backward reads.
        alone = not every & read
        change = change_of(
            [saves[0] for _, saves in members],
            "unneeded",
            "kept for a gradient that nobody asked for",
            "compute it under torch.no_grad(), or detach() what comes in",
            in_modules=False,
            why_untried=None if alone else "the same line keeps what is read, too",
        )
        spans = tuple(
            (storage.number, min(save.tick for save in saves) + 1, max(map(trace.end, saves)), storage.bytes)
            for storage, saves in members
        )
        yield Option(change, spans, dropped=tuple(every) if alone else ())


def _line_and_shape(save: PackedSave) -> SavesAt:
    return _places.key(save.stack), save.shape


# --- a run with it -----------------------------------------------------------------------------------
class ReleaseMode(SitesMode):
    """A mode that takes memory or graphs from tensors as if their names were gone.

    The tensors stay where they are, with nothing in them: a program that reads one after all computes
    something else or fails, and the change is not proved.

    Args:
        releases: The tensors, identified by the calls that made them.
        recorder: The recorder that must ignore this mode's operations; None if nothing is recorded.
    """

    def __init__(self, releases: Iterable[Release], recorder: MemoryRecorder | None = None) -> None:
        """Index the releases by the call that makes and the call that last reads the tensor."""
        every = tuple(releases)
        self._made = grouped(every, lambda release: release.made)
        self._after = grouped(every, lambda release: release.after)
        super().__init__((site for site, _ in (*self._made, *self._after)), recorder)
        self._counts: Counter[Site | None] = Counter()
        self._tensors: dict[int, tuple[Release, list[weakref.ref[Tensor]]]] = {}
        """The tensors that share a released storage, by its key."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a call, collect tensors to release, and release those for which it is the last reader."""
        site = self.site_of(func)
        self._counts[site] += 1
        call = (site, self._counts[site])
        out = func(*args, **(kwargs or {}))
        results = compat.compilers.tensors_in(out)
        if call in self._made:
            for tensor in results:
                key = compat.tensors.storage_key_or_none(tensor)
                if key is not None:
                    self._tensors[key] = (self._made[call][0], [])
        if self._tensors:
            for tensor in results:
                entry = self._tensors.get(compat.tensors.storage_key_or_none(tensor) or 0)
                if entry is not None:
                    # Views, too, because each of them keeps the memory.
                    entry[1].append(weakref.ref(tensor))
        if call in self._after:
            self._give_up(self._after[call])
        return out

    def _give_up(self, releases: Sequence[Release]) -> None:
        """Take the memory, or the graph, from the tensors of these releases that are alive."""
        with self.unseen(), torch.no_grad():
            for key in [key for key, (entry, _) in self._tensors.items() if entry in releases]:
                release, tensors = self._tensors.pop(key)
                for tensor in [alive for reference in tensors if (alive := reference()) is not None]:
                    if release.graph:
                        tensor.detach_()
                    else:
                        tensor.data = tensor.new_empty(0)
