"""Several modules that run one after the other, computed again in backward as one piece.

Inside of a piece not even the tensors between modules are kept. All of them come back at once
when the backward of the piece begins. So the recorded timeline decides where a long row is best cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations

from ...model.text import plural
from .._modules import pattern
from .._names import Named
from .._timeline import LASTING
from .._trace import ModuleCall, Trace, grouped
from . import _edits
from ._checkpoints import SecondForward
from ._option import Option, front, saved_for_work

_MOST_CUTS = 12  # places of a row at which a piece may begin or end
_MOST_PIECES = 8
_BEST_PIECES = 3  # single pieces of a row that are reported, of all between any two cuts


def pieces(again: SecondForward) -> Iterator[Option]:
    """Yield changes for rows of modules: even cuts, and the best of the single pieces between two cuts."""
    for parent, row in _rows(again.trace):
        count = len(row)
        sequential = parent.kind == "Sequential"
        name = row[0].path.rpartition(".")[0] or "model"
        # In a loop, pieces of one module are the checkpoint of each module, which is a change of its own.
        for even in range(2, min(count if sequential else count // 2, _MOST_PIECES) + 1):
            size = count // even
            loop = f"a loop over {plural(size, 'module')} of {name} at a time, but for the last ones"
            yield from again.change(
                f"{pattern(row[0].path)} in {even} pieces, all but the last",
                f"torch.utils.checkpoint.checkpoint_sequential({name}, {even}, x, use_reentrant=False)"
                if sequential
                else f"checkpoint() around {loop}",
                [row[at : at + size] for at in range(0, size * (even - 1), size)],
                partial(_edits.of_sequential, again.trace, parent, row, even) if sequential else tuple,
            )
        # Few cuts, because each pair of them is a candidate.
        cuts = sorted({round(at * count / _MOST_CUTS) for at in range(_MOST_CUTS + 1)})
        single: list[Option] = []
        for begin, end in combinations(cuts, 2):
            if end - begin > 1:
                piece = row[begin:end]
                first, last = (int(call.path.rpartition(".")[2]) for call in (piece[0], piece[-1]))
                part = f"{name}[{first}:{last + 1}]"
                single += again.change(
                    f"{piece[0].path} to {piece[-1].path} in one piece",
                    f"torch.utils.checkpoint.checkpoint({part}, x, use_reentrant=False)"
                    if sequential
                    else f"checkpoint() around a loop over {part}",
                    [piece],
                )
        yield from front(single, saved_for_work, _BEST_PIECES)


def _rows(trace: Trace) -> Iterator[tuple[ModuleCall, list[ModuleCall]]]:
    """Yield rows of three modules or more, each called on the result of the one before, with their parent."""
    calls_of_step = trace.calls_of_step()
    times = Counter(call.key for call in calls_of_step)
    children = grouped(calls_of_step, lambda call: call.parent)
    children.pop(None, None)
    for calls in children.values():
        for row in _runs(trace, calls, times):
            holder = row[0].path.rpartition(".")[0]
            above = row[0].parent or row[0]
            if holder and above.path != holder:
                # A ModuleList is never called; the module that loops over it is.
                above = ModuleCall(holder, "ModuleList", above.tree, above.parent, above.begin)
            yield above, row


def _runs(trace: Trace, calls: Sequence[ModuleCall], times: Counter[Named]) -> list[list[ModuleCall]]:
    """Return the longest runs of calls in which each goes on from the one before, three or more."""

    def row_of(call: ModuleCall) -> tuple[str, str]:
        return pattern(call.path), call.path.rpartition(".")[0]

    runs: list[list[ModuleCall]] = [[]]
    for call in calls:
        # A module that runs twice has no single place in a row.
        once = times[call.key] == 1 and "*" in pattern(call.path)
        run = runs[-1]
        if run and once and row_of(run[-1]) == row_of(call) and _goes_on(trace, run[-1], call):
            run.append(call)
        else:
            runs.append([call] if once else [])
    return [run for run in runs if len(run) > 2]


def _goes_on(trace: Trace, before: ModuleCall, call: ModuleCall) -> bool:
    """Return whether a module runs right after another, on its result, which no other code reads."""
    if before.end != call.begin or call.end is None:
        return False
    first, second = trace.inside(before), trace.inside(call)
    given = {number for operation in first for number in (*operation.makes, *operation.writes)}
    made = {number for operation in second for number in operation.makes}
    read = {number for operation in second for number in operation.reads} - made
    seen = {number for operation in first for number in operation.reads}
    others = {n for n in read - given - seen if trace.storages[n].kind not in LASTING}
    later = {number for number in given if trace.storages[number].last_read > call.end}
    # Tensors that both modules read don't break a row: a mask, the rotation of positions.
    return bool(read & given) and not others and not later - seen
