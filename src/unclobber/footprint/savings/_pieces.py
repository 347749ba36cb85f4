"""Several modules that run one after the other, computed again in backward as one piece.

Inside of a piece not even the tensors between modules are kept. All of them come back at once
when the backward of the piece begins. So the recorded timeline decides where a long row is best cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...model.text import plural
from .._modules import pattern
from .._timeline import LASTING
from .._trace import ModuleCall, Trace
from ._rows import Named

_MOST_CUTS = 12
"""Places of a row at which a piece may begin or end."""
_MOST_PIECES = 8


@dataclass(frozen=True)
class Pieces:
    """Parts of one row of modules, each to be computed again as a whole."""

    calls: tuple[tuple[ModuleCall, ...], ...]
    """The modules of each piece, in the order in which they run."""
    row: tuple[ModuleCall, ...]
    """All modules of the row."""
    parent: ModuleCall
    """The module that holds them."""
    even: int | None
    """Number of pieces in all, of which the last is kept, as ``checkpoint_sequential`` cuts; None for a
    single piece."""

    @property
    def modules(self) -> tuple[tuple[Named, ...], ...]:
        return tuple(tuple((call.tree, call.path) for call in piece) for piece in self.calls)

    @property
    def whole(self) -> list[ModuleCall]:
        """Each piece as if it were one module call."""
        return [_joined(piece) for piece in self.calls]

    @property
    def title(self) -> str:
        first, last = self.calls[0][0].path, self.calls[0][-1].path
        if self.even is None:
            return f"{first} to {last} in one piece"
        return f"{pattern(first)} in {self.even} pieces, all but the last"

    @property
    def write(self) -> str:
        """Code or advice for the report."""
        name = self.row[0].path.rpartition(".")[0] or "model"
        if self.even is not None and self.sequential:
            return (
                f"torch.utils.checkpoint.checkpoint_sequential({name}, {self.even}, x, use_reentrant=False)"
            )
        if self.even is not None:
            size = plural(len(self.calls[0]), "module")
            return f"checkpoint() around a loop over {size} of {name} at a time, but for the last ones"
        numbers = [int(call.path.rpartition(".")[2]) for call in (self.calls[0][0], self.calls[0][-1])]
        part = f"{name}[{numbers[0]}:{numbers[1] + 1}]"
        if self.sequential:
            return f"torch.utils.checkpoint.checkpoint({part}, x, use_reentrant=False)"
        return f"checkpoint() around a loop over {part}"

    @property
    def sequential(self) -> bool:
        return self.parent.kind == "Sequential"


def _joined(piece: Sequence[ModuleCall]) -> ModuleCall:
    first, last = piece[0], piece[-1]
    return ModuleCall(
        first.number, first.path, first.kind, first.tree, first.parent, first.begin, last.end, first.stack
    )


def pieces(trace: Trace) -> Iterator[Pieces]:
    """Yield ways to cut the rows of modules: even cuts, and single pieces between any two cuts."""
    for parent, row in _rows(trace):
        count = len(row)
        # In a loop, pieces of one module are the checkpoint of each module, which is a change of its own.
        most = count if parent.kind == "Sequential" else count // 2
        for even in range(2, min(most, _MOST_PIECES) + 1):
            size = count // even
            cut = [row[at : at + size] for at in range(0, size * (even - 1), size)]
            yield Pieces(tuple(cut), row, parent, even)
        # Few cuts, because each pair of them is a candidate.
        cuts = sorted({round(at * count / _MOST_CUTS) for at in range(_MOST_CUTS + 1)})
        for begin in cuts:
            for end in cuts:
                if end - begin > 1:
                    yield Pieces((row[begin:end],), row, parent, None)


def _rows(trace: Trace) -> Iterator[tuple[ModuleCall, tuple[ModuleCall, ...]]]:
    """Yield rows of three modules or more, each called on the result of the one before, with their parent."""
    times: dict[Named, int] = {}
    children: dict[int, list[ModuleCall]] = {}
    for call in trace.calls:
        if call.again or call.end is None or call.begin < trace.start:
            continue
        times[call.tree, call.path] = times.get((call.tree, call.path), 0) + 1
        if call.parent is not None:
            children.setdefault(call.parent, []).append(call)
    flow = _Handover(trace)
    for calls in children.values():
        for row in _runs(calls, flow, times):
            holder = row[0].path.rpartition(".")[0]
            above = trace.calls[row[0].parent] if row[0].parent is not None else row[0]
            if holder and above.path != holder:
                # A ModuleList is never called; the module that loops over it is.
                above = ModuleCall(-1, holder, "ModuleList", above.tree, above.parent, above.begin)
            yield above, row


def _runs(
    calls: Sequence[ModuleCall], flow: _Handover, times: dict[Named, int]
) -> Iterator[tuple[ModuleCall, ...]]:
    """Yield the longest runs of calls in which each goes on from the one before, three or more."""
    run: list[ModuleCall] = []
    for call in calls:
        # A module that runs twice has no single place in a row.
        once = times[call.tree, call.path] == 1 and "*" in pattern(call.path)
        if run and once and _in_same_row(run[-1], call) and flow.goes_on(run[-1], call):
            run.append(call)
            continue
        if len(run) > 2:
            yield tuple(run)
        run = [call] if once else []
    if len(run) > 2:
        yield tuple(run)


def _in_same_row(a: ModuleCall, b: ModuleCall) -> bool:
    return pattern(a.path) == pattern(b.path) and a.path.rpartition(".")[0] == b.path.rpartition(".")[0]


class _Handover:
    """Data flow between the modules of a recording."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._last_read = trace.last_reads

    def goes_on(self, before: ModuleCall, call: ModuleCall) -> bool:
        """Return whether a module runs right after another, on its result, which no other code reads."""
        if before.end != call.begin or call.end is None:
            return False
        first, second = self._trace.inside(before), self._trace.inside(call)
        given = {number for operation in first for number in (*operation.makes, *operation.writes)}
        made = {number for operation in second for number in operation.makes}
        read = {number for operation in second for number in operation.reads} - made
        seen = {number for operation in first for number in operation.reads}
        others = {n for n in read - given - seen if self._trace.storages[n].kind not in LASTING}
        later = [number for number in given if self._last_read.get(number, 0) > call.end]
        # Tensors that both modules read don't break a row: a mask, the rotation of positions.
        return bool(read & given) and not others and not [n for n in later if n not in seen]
