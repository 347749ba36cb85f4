"""The table of transfer functions: the result of a call, by the kind of its receiver and its name."""

from __future__ import annotations

from collections.abc import Callable

from ._call import Call
from ._run import Run
from ._state import FlowState
from ._values import Value

Transfer = Callable[[Run, Call, FlowState], Value | None]
"""Returns a call's result and records its effects; None for a call that it doesn't know."""
TRANSFERS: dict[tuple[str, str], Transfer] = {}
"""By the receiver's kind and the method; ``any`` for every kind, ``__call__`` for a call of the value
itself. Functions have the kinds ``builtin`` and ``torch``."""


def transfers(kinds: str, names: str) -> Callable[[Transfer], Transfer]:
    """Register a transfer function for some kinds and names, each separated by spaces."""

    def register(function: Transfer) -> Transfer:
        for kind in kinds.split():
            TRANSFERS.update(dict.fromkeys(((kind, name) for name in names.split() or ("",)), function))
        return function

    return register


def transferred(run: Run, kind: str, name: str, call: Call, state: FlowState) -> Value | None:
    """Return a call's result by the table; None if no function there knows it."""
    transfer = TRANSFERS.get((kind, name))
    return None if transfer is None else transfer(run, call, state)
