"""Calls of torch functions in the recorded forward, identified by place so that another run has them, too."""

from __future__ import annotations

from .. import _places
from .._trace import Operation, Trace

Site = tuple[tuple[object, ...], str]
"""A place in the source and the torch function that is called there."""
Call = tuple[Site, int]
"""A call of a site: the first one is 1."""


class ForwardCalls:
    """Calls by the storages they make and read last.

    Args:
        trace: The recording.
    """

    def __init__(self, trace: Trace) -> None:
        """Number the calls of each site in the order in which they ran."""
        self.trace = trace
        self.operations: dict[int, list[Operation]] = {}
        """Operations of each call, by its index in ``Trace.functions``."""
        for operation in trace.operations:
            if not operation.backward and operation.outer is not None:
                self.operations.setdefault(operation.outer, []).append(operation)
        self.maker: dict[int, Operation] = {}
        self.reader: dict[int, Operation] = {}
        """Last operation of forward that reads a storage, by its number."""
        for operation in trace.operations:
            if not operation.backward:
                self.maker.update((number, operation) for number in operation.makes)
                self.reader.update((number, operation) for number in operation.reads)
        self._calls: dict[int, Call] = {}
        counts: dict[Site, int] = {}
        # In the order of their start, so that another run numbers them alike.
        for number, inside in sorted(self.operations.items()):
            # A call that began while the recorder was quiet has a number, but no entry.
            if number < len(trace.functions):
                site = (_places.key(inside[0].stack), trace.functions[number].name)
                counts[site] = counts.get(site, 0) + 1
                self._calls[number] = (site, counts[site])

    def of(self, operation: Operation | None) -> Call | None:
        """Return the call inside of which an operation ran, or None."""
        if operation is None or operation.outer is None:
            return None
        return self._calls.get(operation.outer)
