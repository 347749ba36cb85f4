"""The backward that unpacked a saved tensor."""

from __future__ import annotations

from dataclasses import dataclass

from ._site import Site


@dataclass(frozen=True, slots=True)
class Need:
    """A call of ``backward()`` or ``autograd.grad``, or the line that reads a stale value."""

    site: Site | None
    """The user's call; None if it is not known."""
    nth: int = 1
    """Number of the backward call since watching began, 1-based."""
    node: str | None = None
    """torch's name of the backward node that unpacked the tensor: ``MmBackward0``."""
