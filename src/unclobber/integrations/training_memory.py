"""The memory of one step of a training, for the trainers' callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from ..footprint import StepMemory, record_step
from ..model import UnclobberError


class ReportsMemory:
    """Base of the callbacks that report memory, for each kind of trainer.

    Args:
        step: The step of the training to report, from 1; the second one has the optimizer's state already.
    """

    def __init__(self, step: int = 2) -> None:
        """Remember the step to report; raise `UnclobberError` if it is below 1."""
        if step < 1:
            raise UnclobberError(f"step is {step}: steps are counted from 1")
        self.step = step
        self._recording = ExitStack()
        self._training_begins()

    def _training_begins(self) -> None:
        self._give_up()  # transformers calls no hook at the end of a training that fails
        self.report: StepMemory | None = None  # the memory of that step; None until it has ended
        self._seen = 0

    def _give_up(self) -> None:
        self._recording.close()
        self._taken: Callable[[], StepMemory] | None = None

    def _step_begins(self, model: Any, optimizers: Iterable[Any]) -> None:
        self._seen += 1
        if self._seen == self.step:
            self._taken = self._recording.enter_context(record_step(model, _state_of(optimizers)))

    def _step_ends(self) -> None:
        self._recording.close()
        # Only now, because the report is of a recording that has ended.
        if self._taken is not None:
            self.report, self._taken = self._taken(), None


def _state_of(optimizers: Iterable[Any]) -> Iterator[Any]:
    for optimizer in optimizers:
        for state in optimizer.state.values():
            # Next to tensors some optimizers keep numbers, lists (LBFGS) or other objects as state.
            values = state.values() if isinstance(state, dict) else ()
            yield from (value for value in values if hasattr(value, "untyped_storage"))
