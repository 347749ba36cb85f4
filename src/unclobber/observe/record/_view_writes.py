"""Recent writes to the memory of views, for a view that torch refuses to use after one.

A view made under ``no_grad``, by ``chunk`` or by a custom Function can't be read once its base, or another
view of that, was written: torch says so at the reading line. That memory need not be saved, so the
ledger may know nothing of it. If an optimizer's writes go unseen, because no save is alive, its
last step is remembered with the counters that it left behind.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ...source import Stack, user_stack
from ...torch_internals import compat

_MOST = 256


class ViewWrite(NamedTuple):
    """A write, or all writes of one optimizer step."""

    memory: weakref.ref[torch.UntypedStorage]
    """The written memory. Not the tensor: ``torch.utils.swap_tensors``, as ``load_state_dict`` under
    ``set_swap_module_params_on_conversion``, refuses a tensor that a weak reference exists of."""
    after: int  # version counter after the write
    operation: str
    stack: Stack


class OptimizerStep(NamedTuple):
    """An optimizer's step, and the version counters of all its parameters before and after it."""

    stack: Stack
    before: list[int]
    after: list[int]


class ViewWrites:
    """The newest writes that views may have missed, of all running sessions."""

    def __init__(self) -> None:
        """Start without a write."""
        self._recent: dict[int, ViewWrite] = {}  # the newest write by the identity of its base, oldest first
        self.noted: Callable[[torch.Tensor], tuple[str, Stack] | None] | None = None
        """Return operation and stack of the last write to a view's memory, if the native core noted it."""
        self.unobserved_steps: Callable[[], list[tuple[torch.optim.Optimizer, tuple[Any, ...]]]] = list
        """Return the last steps that the native core noted."""
        self._steps = weakref.WeakKeyDictionary[torch.optim.Optimizer, OptimizerStep]()

    def note(
        self, tensor: torch.Tensor, memory: torch.UntypedStorage, version: int, operation: str, stack: Stack
    ) -> None:
        """Note that ``tensor``, of which ``concerns`` holds, is about to be written at this version.

        ``memory`` is its storage.
        """
        whole = compat.tensors.base_of(tensor)
        base = tensor if whole is None else whole
        self._recent.pop(id(base), None)  # entered again below, because the oldest entry is dropped first
        self._recent[id(base)] = ViewWrite(weakref.ref(memory), version + 1, operation, stack)
        if len(self._recent) > _MOST:
            del self._recent[next(iter(self._recent))]

    def note_step(
        self, optimizer: torch.optim.Optimizer, stack: Stack, before: list[int], after: list[int]
    ) -> None:
        """Note an optimizer step whose writes were not observed."""
        self._steps[optimizer] = OptimizerStep(stack, before, after)

    def last(self, view: torch.Tensor) -> ViewWrite | None:
        """Return the newest write to the memory of ``view``. None if unknown or a later one went unseen."""
        base = compat.tensors.base_of(view)
        if base is None:
            return None
        write = self._recent.get(id(base))
        if write is not None and write.after == compat.tensors.version_of(view):
            memory = write.memory()  # None if the base died and a new tensor has its identity
            key = None if memory is None else compat.tensors.key_of_storage(memory)
            if key is not None and key == compat.tensors.storage_key_or_none(view):
                return write
        if self.noted is not None and (noted := self.noted(view)) is not None:
            return ViewWrite(weakref.ref(base.untyped_storage()), compat.tensors.version_of(view), *noted)
        natively = [(optimizer, OptimizerStep(*step)) for optimizer, step in self.unobserved_steps()]
        for optimizer, step in [*natively, *self._steps.items()]:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            if len(parameters) != len(step.after):
                continue
            for parameter, before, after in zip(parameters, step.before, step.after, strict=True):
                # The step must have moved the counter, and no unseen write may have come after it:
                # test_a_step_that_left_the_parameter_alone, test_a_write_after_a_step_that_nobody_saw.
                if (base is parameter or base is parameter._base) and before < after == view._version:
                    stack = user_stack(step.stack) or step.stack
                    operation = f"{type(optimizer).__name__}.step"
                    return ViewWrite(weakref.ref(base.untyped_storage()), after, operation, stack)
        return None

    def forget(self) -> None:
        self._recent.clear()
        self._steps.clear()


def concerns(tensor: torch.Tensor) -> bool:
    """Return whether a write to ``tensor`` can affect a view that autograd follows.

    The tensor may have such views or be one, and the write itself can make it one.
    """
    base, needs_grad = compat.tensors.base_of(tensor), compat.tensors.needs_grad
    return needs_grad(tensor) or (base is not None and (needs_grad(base) or torch.is_grad_enabled()))
