"""Function mode that marks the moments between two calls of torch, for fingerprints.

Each outermost call of a torch function ends one operation and starts the next. A check before it separates
what the program's Python changed from what torch did. After it, every hash that waited for the operation
can be taken. The mode also sees memory being handed out, by ``.numpy()`` for one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ...source import of_program
from ...torch_internals import compat
from ..record import Fingerprints, ProgramPoint


class CallWatcher(TorchFunctionMode):
    """Mode that notifies ``fingerprints`` of the calls of the thread that enters it."""

    def __init__(self, fingerprints: Fingerprints) -> None:
        super().__init__()
        self._fingerprints = fingerprints

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Notify the fingerprints before and after a call of torch."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        # `x.shape` and `x.grad` are no operations
        if name == "__get__" or torch.compiler.is_compiling():
            return func(*args, **kwargs)
        fingerprints = self._fingerprints

        def before() -> ProgramPoint:
            return ProgramPoint(of_program(), False, name)

        def after() -> ProgramPoint:
            return ProgramPoint(of_program(), True, name)

        fingerprints.before_call(before)
        # The schema of an operation that isn't torch's own may hide a write
        # (test_an_operation_that_hides_its_write_is_named).
        foreign = compat.dispatcher.is_foreign_operator(func)
        if foreign:
            for tensor in _tensors(args):
                fingerprints.look_at(tensor, before)
        result = func(*args, **kwargs)
        # NumPy and others write through such memory unseen
        # (test_a_function_mode_sees_memory_being_handed_out).
        if name in compat.tensors.HAND_OUT:
            for tensor in _tensors(args):
                fingerprints.hand_out(tensor)
        fingerprints.after_call(after)
        if foreign:
            for tensor in _tensors(args):
                fingerprints.look_at(tensor, after)
        return result


def _tensors(args: tuple[Any, ...]) -> list[torch.Tensor]:
    return [arg for arg in args if isinstance(arg, torch.Tensor)]
