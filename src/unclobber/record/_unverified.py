"""Inputs of an operation whose schema declares no write, compared before and after it ran.

Whoever registers an operation may forget to declare what its kernel writes; torch believes the
schema. What live saves hold of such an operation's inputs is copied before it, and if it is not the
same afterwards, the write is entered as if it had been seen just before it happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from ..source import Stack
from ..torch_internals import compat
from ._storage import StorageLog
from .content import same_bits


class SharedInput(NamedTuple):
    """One tensor that the operation was given and that live saves share."""

    tensor: torch.Tensor
    before: torch.Tensor
    log: StorageLog
    serial: int
    """Writes that were seen before the operation: what it writes by torch's own operations is told anyway."""


class UnverifiedCall:
    """One run of an operation that may write unseen.

    Args:
        enter: Notes a write to a tensor of a log, by an operation at a stack.
        operation: Its name without namespace and overload.
        inputs: What it was given.
    """

    def __init__(
        self,
        enter: Callable[[torch.Tensor, StorageLog, str, Stack], None],
        operation: str,
        inputs: list[SharedInput],
    ) -> None:
        self._enter = enter
        self._operation = operation
        self._inputs = inputs
        self.nbytes = sum(each.before.nbytes for each in inputs)
        """Bytes that ``changed`` compares."""

    def changed(self) -> bool:
        """Whether the operation has written already, past everything that sees writes."""
        with torch.no_grad(), compat.unseen_by_torch():
            return any(_written_unseen(each) for each in self._inputs)

    def settle(self, stack: Stack) -> bool:
        """The operation has finished: enter what it wrote as a write at ``stack``; whether it did."""
        wrote = False
        with torch.no_grad(), compat.unseen_by_torch():
            for each in self._inputs:
                if _written_unseen(each):
                    wrote = True
                    after = each.tensor.clone()
                    each.tensor.copy_(each.before)  # so that what was there can be kept
                    self._enter(each.tensor, each.log, self._operation, stack)
                    each.tensor.copy_(after)
        return wrote


def _written_unseen(each: SharedInput) -> bool:
    return each.log.serial == each.serial and not same_bits(each.tensor, each.before)
