"""The hash of one saved tensor's content, and where it was seen."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import torch

from ..source import Stack


class ProgramPoint(NamedTuple):
    """A moment of the program."""

    stack: Stack
    after: bool
    """Just after the call that the stack ends in, not just before it."""
    name: str = ""
    """The torch function that is called, if one is."""
    moment: int | None = None
    """Number of the moment: two for each call of torch, one before and one after it. None where nothing is
    called, and where another thread runs, too."""


class Fingerprint:
    """The hash of one saved tensor's content."""

    __slots__ = (
        "__weakref__", "alias", "at_need_only", "bad", "good", "key", "nbytes", "owner", "value", "write",
    )  # fmt: skip

    def __init__(self, alias: torch.Tensor, key: int, owner: int) -> None:
        self.alias = weakref.ref(alias)
        self.key = key
        self.nbytes = alias.numel() * alias.itemsize
        self.value: int | None = None
        """None until it is taken, and again while a seen write is under way."""
        self.owner = owner
        """The thread whose operation must finish before it may be taken."""
        self.at_need_only = False
        """Its memory was given back and is filled again for backward: before that there is no content."""
        self.good: ProgramPoint | None = None
        """Where the content was last seen as it should be."""
        self.bad: ProgramPoint | None = None
        """Where it was first seen changed."""
        self.write: Stack | None = None
        """Where the one statement is that can have changed it, if there is but one."""
