"""Inputs of an operation whose schema declares no write, compared before and after it ran.

A library may register an operation without declaring what its kernel writes; torch believes the
schema. Inputs that live saves share are copied before such an operation. If they differ afterwards,
the write is entered as if it had been seen just before it happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from ...source import Stack
from ...torch_internals import compat
from .content import same_bits
from .saved import StorageLog


class SharedInput(NamedTuple):
    """An argument of the operation whose storage live saves share."""

    tensor: torch.Tensor
    before: torch.Tensor
    log: StorageLog
    serial: int
    """Number of writes to the storage before the operation. If it grows, the kernels saw the write."""


class UnverifiedCall(NamedTuple):
    """A run of an operation that may write unseen."""

    enter: Callable[[torch.Tensor, StorageLog, str, Stack], None]
    """Notes a write to a tensor of a log, by an operation at a stack."""
    operation: str  # its name without namespace and overload
    inputs: list[SharedInput]  # its arguments that live saves share

    @property
    def nbytes(self) -> int:  # that `changed` compares
        return sum(each.before.nbytes for each in self.inputs)

    def changed(self) -> bool:
        with torch.no_grad(), compat.dispatcher.unseen_by_torch():
            return any(_written_unseen(each) for each in self.inputs)

    def settle(self, stack: Stack) -> bool:
        """Enter the finished operation's unseen writes as writes at ``stack``. Return whether it made any."""
        wrote = False
        with torch.no_grad(), compat.dispatcher.unseen_by_torch():
            for each in self.inputs:
                if _written_unseen(each):
                    wrote = True
                    after = each.tensor.clone()
                    each.tensor.copy_(each.before)  # because `enter` copies the old values from memory
                    self.enter(each.tensor, each.log, self.operation, stack)
                    each.tensor.copy_(after)
        return wrote


def _written_unseen(each: SharedInput) -> bool:
    # A write that the kernels saw is entered already: test_a_declared_write_is_counted_as_torch_counts_it.
    return each.log.serial == each.serial and not same_bits(each.tensor, each.before)
