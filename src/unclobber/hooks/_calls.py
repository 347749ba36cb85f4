"""The moments between two calls of torch, for fingerprints: a function mode that does nothing else.

Each outermost call of a torch function ends one operation and starts the next: before it, what the
program's Python did in between can be told from what torch did; after it, every hash that waited
for the operation can be taken. It also sees memory being handed out, by ``.numpy()`` for one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..record import Fingerprints, ProgramPoint
from ..source import frames
from ..source.between import HAND_OUT
from ..torch_internals import compat


class CallWatcher(TorchFunctionMode):
    """Tells ``fingerprints`` of the calls of the thread that enters it."""

    def __init__(self, fingerprints: Fingerprints) -> None:
        super().__init__()
        self._fingerprints = fingerprints

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        # `x.shape` and `x.grad` are no operations
        if name == "__get__" or torch.compiler.is_compiling():
            return func(*args, **kwargs)
        fingerprints = self._fingerprints

        def before() -> ProgramPoint:
            return ProgramPoint(frames.of_program(), False, name)

        def after() -> ProgramPoint:
            return ProgramPoint(frames.of_program(), True, name)

        fingerprints.before_call(before)
        # somebody else's kernel may write what its schema doesn't say
        foreign = compat.is_operator(func) and compat.namespace(func) != "aten"
        if foreign:
            for tensor in _tensors(args):
                fingerprints.look_at(tensor, before)
        result = func(*args, **kwargs)
        if name in HAND_OUT:
            for tensor in _tensors(args):
                fingerprints.hand_out(tensor)
        fingerprints.after_call(after)
        if foreign:
            for tensor in _tensors(args):
                fingerprints.look_at(tensor, after)
        return result


def _tensors(args: tuple[Any, ...]) -> list[torch.Tensor]:
    return [arg for arg in args if isinstance(arg, torch.Tensor)]
