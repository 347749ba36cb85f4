"""The table of transfer functions: the result of a call, by the kind of its receiver and its name."""

from __future__ import annotations

from collections.abc import Callable

from ._call import FollowedCall
from ._engine import FileRun
from ._state import FlowState
from ._values import Value

Transfer = Callable[[FileRun, FollowedCall, FlowState], Value | None]
"""Returns a call's result and records its effects; None for a call that it doesn't know."""
transfer_functions: dict[tuple[str, str], Transfer] = {}
"""By the receiver's kind (of functions ``builtin`` or ``torch``, or ``any``) and method, or ``__call__``."""


def transfers(kinds: str, names: str) -> Callable[[Transfer], Transfer]:
    """Register a transfer function for some kinds and names, each separated by spaces."""

    def register(function: Transfer) -> Transfer:
        keys = [(kind, name) for kind in kinds.split() for name in names.split() or ("",)]
        transfer_functions.update(dict.fromkeys(keys, function))
        return function

    return register


def transferred(run: FileRun, kind: str, name: str, call: FollowedCall, state: FlowState) -> Value | None:
    transfer = transfer_functions.get((kind, name))
    return None if transfer is None else transfer(run, call, state)
