"""Places where numbers become wider than the parameters are, so that all results after them are kept wide."""

from __future__ import annotations

from collections.abc import Iterable

from .. import _places
from .._facts import Change
from .._trace import Operand, Operation, Site, Trace, modules_of
from ._option import Option, Span
from ._regions import operands

_WIDE = "torch.float64"
_CONVERSIONS = frozenset({"to", "double", "type", "type_as"})


def widened(trace: Trace) -> Iterable[Option]:
    """Yield a change for each place at which float64 begins; each is tried alone, with all that follows."""
    groups: dict[Site, list[tuple[Operation, Operand]]] = {}
    for operation in trace.forward:
        if not operation.results or operation.outer is None:
            continue
        call, narrow = trace.site_call(operation), _narrow(operation)
        if call is not None and narrow is not None and operation.results[0].dtype == _WIDE:
            groups.setdefault(call[0], []).append((operation, narrow))
    spans = tuple(_spans(trace)) if groups else ()
    for site, members in groups.items():
        first, operand = members[0]
        dtype = operand.dtype.removeprefix("torch.")
        instead = f"convert the float64 operand: .to(torch.{dtype})"
        if site[1] in _CONVERSIONS:
            instead = f"leave out .{site[1]}()"
        change = Change(
            sort="dtype",
            title=f"{dtype} becomes float64 here, and what follows is kept as float64",
            write=instead,
            place=_places.place(first.stack),
            modules=modules_of(operation for operation, _ in members),
            times=len(members),
        )
        yield Option(change, spans, narrow=(site,))


def _narrow(operation: Operation) -> Operand | None:
    """Return the float32 operand that needs a gradient if no float64 one does, else None."""
    tensors = operands(operation)
    narrow = [operand for operand in tensors if operand.requires_grad and operand.dtype == "torch.float32"]
    wide = [operand for operand in tensors if operand.dtype == _WIDE and operand.requires_grad]
    return narrow[0] if narrow and not wide else None


def _spans(trace: Trace) -> Iterable[Span]:
    """Yield half the bytes of each activation of float64."""
    wide = {
        result.storage
        for operation in trace.operations
        if not operation.backward
        for result in operation.results
        if result.dtype == _WIDE
    }
    for number in sorted(wide):
        storage = trace.storages[number]
        if storage.kind == "activation" and number in trace.kept_spans:
            yield number, storage.born, trace.end(storage), storage.bytes // 2
