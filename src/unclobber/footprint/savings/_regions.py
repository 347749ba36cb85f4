"""Parts of the recorded forward that compute one tensor from few: candidates for a written-out formula.

From each operation the search goes back against the flow. An operation joins the part if
nothing outside of the part reads its results: the part can then be replaced as a whole. Each cut at which few
activations come in is a part to compare with torch's fused functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...syntax import torch_table
from .._trace import FunctionCall, Operand, Operation, Site, Trace, Value

_MOST = 30  # operations of a part at most

POINTWISE = torch_table().pointwise
REDUCTIONS = torch_table().reductions
VIEWS = torch_table().computes_nothing
PRODUCTS = frozenset({"bmm", "mm", "matmul"})
TELLING = frozenset(
    {
        "erf", "exp", "log", "log_softmax", "_log_softmax", "pow", "rsqrt", "sigmoid", "_softmax",
        "sqrt", "tanh", "std", "var", "var_mean"
    }
)  # fmt: skip
"""Operations of which every function in one piece has at least one."""


@dataclass(frozen=True)
class Section:
    """Operations from a few values to one."""

    operations: tuple[Operation, ...]
    """Operations in the order in which they ran; the last one gives the result."""
    activations: tuple[Operand, ...]  # inputs that the program computed
    others: tuple[Operand, ...]  # other inputs: parameters, masks
    calls: tuple[FunctionCall, ...]  # the torch functions that the program called, in order

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(call.site for call in self.calls)

    @property
    def result(self) -> Operand:
        output = self.operations[-1].output
        assert output is not None
        return output

    @property
    def inputs(self) -> tuple[Operand, ...]:
        return (*self.activations, *self.others)

    @property
    def inner(self) -> set[int]:
        made = {number for operation in self.operations for number in operation.makes}
        return made - {self.result.storage}  # besides its result's

    @property
    def drawn(self) -> set[int]:  # masks of random numbers
        return {
            n for operation in self.operations if operation.name == "bernoulli_" for n in operation.writes
        }

    @property
    def key(self) -> tuple[object, ...]:
        """Key that is equal for every run of the same source on operands of the same rank."""
        return (
            self.sites,
            tuple(operation.name for operation in self.operations),
            tuple(len(operand.shape) for operand in self.inputs),
        )


class Flow:
    """Makers and readers of each value in the recorded forward."""

    def __init__(self, trace: Trace) -> None:
        """Index the operations of forward by call, maker, reader and writer."""
        self.trace = trace
        self.operations = [op for op in trace.forward if op.outer is not None]
        self.by_call: dict[FunctionCall, list[int]] = {}
        self._maker: dict[tuple[int, Value], int] = {}
        """Index of the operation that made a value, by the index of its reader and the value."""
        self._readers: dict[int, list[int]] = {}
        self._writers: dict[int, list[int]] = {}
        latest: dict[Value, int] = {}
        for at, operation in enumerate(self.operations):
            assert operation.outer is not None
            self.by_call.setdefault(operation.outer, []).append(at)
            for operand in operation.operands:
                if operand.value in latest:
                    # By the reader's position, because a write makes a new value with the same storage and
                    # shape.
                    self._maker[at, operand.value] = latest[operand.value]
            for number in operation.reads:
                self._readers.setdefault(number, []).append(at)
            for number in operation.writes:
                self._writers.setdefault(number, []).append(at)
            for result in operation.results:
                latest[result.value] = at
        self._uncalled = {number for op in trace.forward if op.outer is None for number in op.reads}

    def read_only_by(self, at: int, region: set[int]) -> bool:
        """Return whether only the region reads an operation's results in forward, or what follows its end."""
        last = max(region)
        result = self.operations[last].output
        for number in self.operations[at].makes:
            # Read by an operation outside of any call, so not by the region alone.
            if number in self._uncalled:
                return False
            # The result may be a view of an earlier operation's storage, which may be read after the region.
            end = last if result is not None and result.storage == number else len(self.operations)
            others = [reader for reader in self._readers.get(number, ()) if reader not in region]
            if any(reader != at and reader < end for reader in others):
                return False
        return True

    def parts(self, last: int, *, allowed: frozenset[str], most_inputs: int) -> Iterator[Section]:
        """Yield every cut before an operation with at most so many activations coming in, smallest first."""
        region = {last}
        while len(region) <= _MOST:
            incoming = self._incoming(region)
            part = self._part(region, incoming, most_inputs)
            if part is not None:
                yield part
            makers = [
                maker
                for at, operand in incoming
                if (maker := self._maker.get((at, operand.value))) is not None
                and self._may_join(maker, region, allowed)
            ]
            if not makers:
                return
            # The newest maker first, so that a region never skips an operation between two of its own.
            region.add(max(makers))

    def _may_join(self, at: int, region: set[int], allowed: frozenset[str]) -> bool:
        operation = self.operations[at]
        # What needs no gradient comes in from outside, as a mask does: torch's function takes it as it is.
        differentiable = any(operand.requires_grad for operand in operation.operands)
        may = operation.name in allowed and differentiable and not operation.writes
        return may and self.read_only_by(at, region)

    def _incoming(self, region: set[int]) -> list[tuple[int, Operand]]:
        read = ((at, operand) for at in sorted(region) for operand in self.operations[at].operands)
        return [(at, operand) for at, operand in read if self._maker.get((at, operand.value)) not in region]

    def _part(self, region: set[int], incoming: list[tuple[int, Operand]], most: int) -> Section | None:
        """Return the part of a region, or None if it is no whole set of calls with one result."""
        values: dict[Value, Operand] = {}
        for _, operand in incoming:
            values.setdefault(operand.value, operand)
        activations = tuple(operand for operand in values.values() if self._computed(operand))
        others = tuple(operand for operand in values.values() if not self._computed(operand))
        inside = [self.operations[at] for at in sorted(region)]
        calls = tuple(dict.fromkeys(operation.outer for operation in inside if operation.outer is not None))
        # A call is replaced as a whole or not at all.
        whole = all(set(self.by_call[call]) <= region for call in calls)
        last = inside[-1]
        if not (0 < len(activations) <= most and whole and len(inside) > 1 and last.output is not None):
            return None
        if not self._steady(region):
            return None
        # The last call must return the part's result, because its caller gets the replacement's.
        if calls[-1].result != last.output.storage:
            return None
        return Section(tuple(inside), activations, others, calls)

    def _steady(self, region: set[int]) -> bool:
        """Return whether each value that the region reads stays the same: neither written nor detached."""
        differentiable: dict[Value, bool] = {}
        first, last = min(region), max(region)
        for at in region:
            for operand in self.operations[at].operands:
                known = differentiable.setdefault(operand.value, operand.requires_grad)
                written = any(first < writer < last for writer in self._writers.get(operand.storage, ()))
                # One value read with and without gradient was detached in between, which a fused call would
                # lose.
                if known != operand.requires_grad or written:
                    return False
        return True

    def _computed(self, operand: Operand) -> bool:
        # A mask that is made in forward is none: it needs no gradient.
        return operand.requires_grad and self.trace.storages[operand.storage].kind in ("activation", "input")
