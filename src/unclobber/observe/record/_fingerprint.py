"""The hash of one saved tensor's content, and where it was seen."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import torch

from ...source import Stack


class ProgramPoint(NamedTuple):
    """A moment of the program."""

    stack: Stack
    after: bool  # whether the moment is just after the call that the stack ends in, not just before it
    name: str = ""  # the torch function that is called, if one is
    moment: int | None = None
    """Number of the moment: two for each call of torch, one before and one after it. None if no torch
    function is called, or if another thread runs as well."""


class Fingerprint:
    """The hash of one saved tensor's content."""

    __slots__ = (
        "__weakref__", "alias", "at_need_only", "bad", "good", "key", "nbytes", "owner", "value", "write",
    )  # fmt: skip

    def __init__(self, alias: torch.Tensor, key: int, owner: int) -> None:
        """Prepare the fingerprint of ``alias``, of storage ``key``, saved in the thread ``owner``."""
        self.alias = weakref.ref(alias)
        self.key = key
        self.nbytes = alias.numel() * alias.itemsize
        self.value: int | None = None
        """The hash. None until it is taken, and again while an observed write is under way."""
        self.owner = owner  # the thread whose operation must finish before the hash may be taken
        self.at_need_only = False
        """Whether the memory was given back, so that it has content only once it is refilled for backward."""
        self.good: ProgramPoint | None = None  # the last moment at which the content matched the hash
        self.bad: ProgramPoint | None = None  # the first moment at which the content differed from the hash
        self.write: Stack | None = None
        """Stack of the only statement that can have changed the content; None if several can."""

    def places(self) -> tuple[Stack | None, ...]:
        """Return the stack of the write, or of both moments: the same each time a loop does the same."""
        return (self.write,) if self.write else tuple(at and at.stack for at in (self.good, self.bad))
