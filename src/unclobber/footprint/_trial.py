"""A second run of the program with the safe candidates in place, and its comparison with the first.

A function mode calls the in-place method instead of the out-of-place function at the recorded call sites.
It is above autograd, so that the graph is that of the changed program.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..agreement import difference, rounding
from ..source import frames
from . import _places
from ._facts import MemoryReport, Trial
from ._functions import REVERSED, in_place_form, name_of, requests_in_place
from ._timeline import timeline
from ._trace import KnowsModule, Trace
from .recorder import MemoryRecorder

Key = tuple[object, ...]

ROUNDING = 64
"""Machine epsilons of the largest element by which two gradients may differ and still count as equal: a
fused formula rounds at other places than its parts."""


class InPlaceMode(TorchFunctionMode):
    """A function mode that runs the in-place form of an operation at chosen call sites.

    Args:
        keys: Line, module, operation and operand of each (`InPlaceCandidate.keys`).
        recorder: Names the module whose ``forward`` runs.
    """

    def __init__(self, keys: Iterable[Key], recorder: KnowsModule) -> None:
        super().__init__()
        self._keys = frozenset(keys)
        self._lines = frozenset(key[:4] for key in self._keys)
        self._recorder = recorder
        self.substituted = 0
        self.places: set[Key] = set()

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run a call in place if it is one of the chosen ones."""
        kwargs = kwargs or {}
        operation = name_of(func)
        if in_place_form(operation) is not None and not requests_in_place(func, args, kwargs):
            # `3 + x` is x.__radd__(3), so its operands are swapped.
            turned = str(func.__name__).strip("_") in REVERSED and len(args) > 1
            operands = [args[1], args[0]] if turned else list(args)
            position = self._chosen(operation, operands)
            if position is not None:
                self.substituted += 1
                target = operands.pop(position)
                return _in_place(func, operation, target, operands, kwargs)
        return func(*args, **kwargs)

    def _chosen(self, operation: str, operands: Sequence[Any]) -> int | None:
        """Return the position of the operand that this call is to write; None if the call is not a chosen
        one."""
        line = _places.key(frames.of_program())
        if line not in self._lines:
            return None
        module = self._recorder.module
        # A candidate names the first or the second operand.
        for position, operand in enumerate(operands[:2]):
            if isinstance(operand, Tensor) and (*line, module, operation, position) in self._keys:
                self.places.add(line)
                return position
        return None


def _takes_inplace(func: Any) -> bool:
    try:
        return "inplace" in inspect.signature(func).parameters
    except (TypeError, ValueError):
        return False


def _in_place(
    func: Any, operation: str, target: Tensor, others: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Run the in-place form of a call on `target`."""
    given = dict(kwargs)
    # `F.dropout(x, p, training, inplace=False)` has an argument for it, so the function itself is called.
    if "inplace" in given or _takes_inplace(func):
        given["inplace"] = True
        bound = inspect.signature(func).bind(target, *others)
        bound.arguments.update(given)
        return func(*bound.args, **bound.kwargs)
    method = in_place_form(operation)
    assert method is not None
    return method(target, *others, **given)


def attempt(run: Callable[[], str | None], report: MemoryReport, before: Trace, step: int) -> Trial:
    """Run the program a second time with every candidate in place; compare loss, gradients and peak."""
    keys = [key for candidate in report.candidates for key in candidate.keys]
    recorder = MemoryRecorder(step, keep_results=True)
    changer = InPlaceMode(keys, recorder)
    # A run without candidates would compare the program with itself.
    if not keys:
        peak = _step_peak(before)
        gradients = len(before.results) - before.roots
        return Trial(0, 0, peak, peak, True, gradients, 0, 0, 0.0)
    with recorder, changer:
        failure = run()
    after = recorder.trace
    # Another number of gradients can't be paired.
    if failure is None and len(after.results) != len(before.results):
        failure = "it has other gradients than before"
    if failure is not None:
        return Trial(changer.substituted, len(changer.places), 0, 0, False, 0, 0, 0, 0.0, failure)
    return Trial(
        substituted=changer.substituted,
        places=len(changer.places),
        peak_before=_step_peak(before),
        peak_after=_step_peak(after),
        **compared(before, after),
    )


def compared(before: Trace, after: Trace) -> dict[str, Any]:
    """Return the fields of a `Trial` or `Tried` that compare the losses and gradients of two runs."""
    pairs = list(zip(before.results, after.results, strict=True))
    losses, gradients = pairs[: before.roots], pairs[before.roots :]
    differences = [difference(a, b) for a, b in gradients]
    rounded = sum(0 < d <= rounding(a, ROUNDING) for d, (a, _) in zip(differences, gradients, strict=True))
    return {
        # In the dtype of the changed run, because a change may leave a conversion to float64 out.
        "equal_loss": all(difference(a.to(b.dtype), b) <= rounding(b, ROUNDING) for a, b in losses),
        "gradients": len(gradients),
        "rounded_gradients": rounded,
        "changed_gradients": sum(difference > 0 for difference in differences) - rounded,
        "largest_difference": max(differences, default=0.0),
    }


def _step_peak(trace: Trace) -> int:
    """Return the bytes of the step alone at the first peak of all live bytes, as the report gives them."""
    line = timeline(trace)
    at = line.peak() - line.first
    return line.totals[at] - line.lasting[at]
