"""Saves for gradients that the program doesn't request."""

from __future__ import annotations

from collections.abc import Iterable

from .. import _places
from .._trace import PackedSave, Trace, grouped
from ._option import Option, SavesAt, change_of


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
