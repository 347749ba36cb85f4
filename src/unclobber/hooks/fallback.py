"""Seeing writes by public means alone, where the kernels of ``kernels`` fail their self-test.

A dispatch mode sees every operation of its own thread, mutating or not: about twice as slow, and
blind to other threads. The ledger can't tell the difference.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

from ..torch_internals.compat import TorchDispatchMode
from . import kernels


class _Modes(threading.local):
    def __init__(self) -> None:
        self.entered: list[tuple[kernels.Listener, WriteMode]] = []


_modes = _Modes()


class WriteMode(TorchDispatchMode):
    """Tells one listener of each mutating operation before it runs."""

    def __init__(self, listener: kernels.Listener) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._listener = listener

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        listener = self._listener
        if func._schema.is_mutable and (listener.pending or listener.watched or listener.logs):
            name = func._schema.name.partition("::")[2]
            for tensor in kernels.written_tensors(func, args, kwargs):
                listener.before_write(tensor, name, True, args, kwargs)
        return func(*args, **kwargs)


def listen(listener: kernels.Listener, problem: str) -> None:
    """Enter a mode for this thread, with a warning that says what is wrong with the better way."""
    warnings.warn(
        "unclobber falls back to a slower way of seeing writes on this torch, in this thread only: "
        + problem,
        RuntimeWarning,
        stacklevel=4,
    )
    mode = WriteMode(listener)
    mode.__enter__()  # type: ignore[no-untyped-call]
    _modes.entered.append((listener, mode))


def unlisten(listener: kernels.Listener) -> None:
    """Leave the mode that ``listen`` entered."""
    for index, (other, mode) in enumerate(_modes.entered):
        if other is listener:
            del _modes.entered[index]
            mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            return
