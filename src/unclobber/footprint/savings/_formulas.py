"""Formulas that the program writes out and torch has in one piece, found in the recorded forward, and runs
with torch's own functions in their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...torch_internals import compat
from .._recorder import MemoryRecorder
from .._trace import Operation, Site, Trace
from . import _fused
from ._regions import POINTWISE, PRODUCTS, REDUCTIONS, TELLING, VIEWS, Flow, Section
from ._replay import Replay
from ._sites import SitesMode

_SOFTMAX = ("_softmax", "_safe_softmax")


@dataclass(frozen=True)
class Formula:
    """Calls at fixed places whose result one other call gives."""

    takes: tuple[tuple[int, int], ...]
    """Origin of each input of the new call: index of the site at which it comes in, and of the tensor
    there."""
    new: Callable[..., Tensor]
    call: str  # source text of the new call; ``{0}``, ``{1}`` stand for its inputs
    parts: tuple[Section, ...]  # the recorded operations, once for each run

    @property
    def sites(self) -> tuple[Site, ...]:
        return self.parts[0].sites  # the last one gives the result

    @property
    def name(self) -> str:
        return self.call.partition("(")[0].rpartition(".")[2]

    @property
    def in_pieces(self) -> bool:  # torch computes it in pieces on this device, too, and keeps as much
        return self.name == "rms_norm" and _fused.rms_norm_in_pieces(self.parts[0].result.device)

    @property
    def results(self) -> list[Operation]:
        return [part.operations[-1] for part in self.parts]


def formulas(trace: Trace) -> list[Formula]:
    """Return all formulas, largest first; no operation belongs to two."""
    flow = Flow(trace)
    by_key: dict[tuple[object, ...], list[Section]] = {}
    for part in _candidates(flow):
        # Replacing a part that saves nothing spares nothing. A site that runs twice in it can't be replaced
        # once.
        if part.inner & trace.kept_spans.keys() and len(set(part.sites)) == len(part.sites):
            by_key.setdefault(part.key, []).append(part)
    runs = Counter(call.site for call in flow.by_call)
    matched = []
    for parts in by_key.values():
        # Only if every run of the last site is a part: an edit of the line changes them all.
        if len(parts) == runs[parts[0].sites[-1]]:
            # Once for each source, because a comparison runs many candidates on small tensors.
            formula = _formula(parts)
            if formula is not None:
                matched.append(formula)
    matched.sort(key=lambda formula: -len(formula.parts[0].operations))
    taken: set[int] = set()
    apart = []
    for formula in matched:
        ticks = {operation.tick for part in formula.parts for operation in part.operations}
        if not ticks & taken:
            taken |= ticks
            apart.append(formula)
    return apart


def _candidates(flow: Flow) -> Iterator[Section]:
    """Yield the parts of forward that could be a formula: elementwise, or two products around a softmax."""
    simple = POINTWISE | REDUCTIONS | VIEWS
    for at, operation in enumerate(flow.operations):
        if operation.name in simple and operation.output is not None:
            for part in flow.parts(at, allowed=simple, most_inputs=1):
                if any(member.name in TELLING for member in part.operations):
                    yield part
        if operation.name in _SOFTMAX and (last := _product_after(flow, at)) is not None:
            for part in flow.parts(last, allowed=simple | PRODUCTS, most_inputs=3):
                if sum(member.name in PRODUCTS for member in part.operations) == 2:
                    yield part


def _product_after(flow: Flow, softmax: int) -> int | None:
    """Return the index of the call's last operation that multiplies with the softmax's result, or None."""
    # Dropout, views and a copy may come between softmax and product.
    for at in range(softmax + 1, min(softmax + 12, len(flow.operations))):
        if flow.operations[at].name in PRODUCTS:
            outer = flow.operations[at].outer
            assert outer is not None
            return flow.by_call[outer][-1]
    return None


def _formula(parts: list[Section]) -> Formula | None:
    """Return the formula of equal parts; None if no function is equal or an input comes in at no site."""
    part = parts[0]
    try:
        match = _fused.matching(Replay(part))
    except ValueError:  # it can't be computed again
        return None
    if match is None:
        return None
    takes = []
    for at in match.inputs:
        value = part.inputs[at].value
        origins = [(n, c.tensors.index(value)) for n, c in enumerate(part.calls) if value in c.tensors]
        if not origins:
            return None
        takes.append(origins[0])
    return Formula(tuple(takes), match.function, match.call, tuple(parts))


# --- masks -------------------------------------------------------------------------------------------
def float_masks(trace: Trace) -> list[Formula]:
    """Return the calls of dropout that keep their mask as numbers, as torch does on the CPU."""
    groups: dict[Site, list[Section]] = {}
    for call in trace.functions:
        members = tuple(operation for operation in call.operations if operation.tick > trace.start)
        part = Section(members, (), (), (call,))
        if call.name == "dropout" and part.drawn & trace.kept_spans.keys() and call.tensors:
            groups.setdefault(call.site, []).append(part)
    return [
        Formula(((0, 0),), _dropout, "torch.native_dropout({0}, p, True)[0]", tuple(parts))
        for parts in groups.values()
    ]


def _dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, **other: Any) -> Tensor:
    """Return what ``F.dropout`` computes, with a mask of one byte an element."""
    if not other.get("train", training) or inplace:
        return torch.nn.functional.dropout(x, p, other.get("train", training), inplace)
    result: Tensor = torch.native_dropout(x, p, True)[0]
    return result


# --- a run with it -----------------------------------------------------------------------------------
class FormulaMode(SitesMode):
    """A mode that calls torch's own functions for written-out formulas, above autograd.

    At the places of a formula the calls between return tensors without memory; the last one returns the
    result of torch's own function on the formula's inputs. The graph is then that of the changed program.

    Args:
        formulas: The formulas to replace.
        recorder: The recorder that must ignore the tensors without memory; None if nothing is recorded.
    """

    def __init__(self, formulas: Iterable[Formula], recorder: MemoryRecorder | None = None) -> None:
        """Index the formulas by their sites."""
        self._steps: dict[Site, tuple[Formula, int]] = {
            site: (formula, at) for formula in formulas for at, site in enumerate(formula.sites)
        }
        super().__init__(self._steps, recorder)
        self._inputs: dict[int, dict[int, Tensor]] = {}
        """Inputs of each formula that have come in so far, by its identity."""
        self._busy = False  # whether it runs a replaced call: entered twice, it must not see that

    def called(self, site: Site, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call of a formula, replaced."""
        if self._busy:
            return func(*args, **kwargs)
        self._busy = True
        try:
            return self._replaced(*self._steps[site], func, args, kwargs)
        finally:
            self._busy = False

    def _replaced(
        self, formula: Formula, at: int, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the stand-in for a call of a formula; at the last one, the result of torch's function."""
        # A formula of one call takes its arguments as they are.
        if len(formula.sites) == 1:
            return formula.new(*args, **kwargs)
        tensors = compat.compilers.tensors_in((args, kwargs))
        held = self._inputs.setdefault(id(formula), {})
        for slot, (site, position) in enumerate(formula.takes):
            if site == at:
                held[slot] = tensors[position]
        # Code between the calls may look at shapes, so each call returns one.
        expected = self._without_memory(func, args, kwargs)
        if at + 1 < len(formula.sites):
            return expected
        inputs = [held[slot] for slot in range(len(formula.takes))]
        held.clear()
        result = formula.new(*inputs)
        if result.shape != expected.shape:
            raise RuntimeError(f"{formula.name} gives another shape: {result.shape}, not {expected.shape}")
        return result if result.dtype == expected.dtype else result.to(expected.dtype)

    def _without_memory(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self.unseen(), torch.no_grad():
            bare = compat.compilers.map_tensors(_meta, (args, kwargs))
            return func(*bare[0], **bare[1])


def _meta(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
