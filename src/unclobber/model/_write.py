"""A write to saved memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ._site import Site

Reached = Literal["same", "other", "former", "none"]
"""The memory that a write reached: the storage of the saved tensor; other memory that shares its version
counter since ``.data =``; the memory that the saved tensor had before such a change; a tensor without
elements."""

PastCounter = Literal[
    "data",
    "set data",
    "fused",
    "elementwise",
    "undeclared",
    "kernel",
    "statistics",
    "broadcast",
    "handed out",
    "alias",
]
"""The way in which a write left the saved tensor's version counter unchanged:

- ``data``: through ``.data``; ``set data``: by ``.data =``.
- ``fused``: by a fused optimizer; ``elementwise``: by a method that runs a Python function on each element.
- ``undeclared``: by an operator whose schema hides the write; ``kernel``: by a Triton kernel, whose line is
  the innermost of ``site.below``.
- ``statistics``: by a kernel of torch's that updates running statistics.
- ``broadcast``: by DistributedDataParallel, which sets the counter back.
- ``handed out``: by foreign code that was given the memory, such as NumPy.
- ``alias``: through another tensor with a counter of its own, or the counter was set back.
"""


@dataclass(frozen=True, slots=True)
class Write:
    """A write to the storage of a saved tensor, after the save."""

    site: Site | None
    """The user's line; None if it is not known."""
    operation: str
    """The ATen operation without its overload: ``add_``, ``copy_``; the name of a Triton kernel."""
    bumps_version: bool
    """Whether torch could see it: the saved tensor's version counter changed."""
    overlaps_needed: bool
    """Whether it touched an element of the saved tensor."""
    version_before: int | None = None
    """The version counter before the write; None if the write left it alone."""
    version_after: int | None = None
    """The version counter after the write; None if the write left it alone."""
    expression: str | None = None
    """The user's expression for the written tensor: ``d[:]``."""
    count: int = 1
    """Number of writes by this line to this storage between the save and the need."""
    optimizer: str | None = None
    """``opt_d.step()`` or ``Adam.step()`` if the write is an optimizer's."""
    parameters: tuple[str, ...] = ()
    """Module paths of all parameters which that optimizer step wrote and this backward needs."""
    module: str | None = None
    """The module that wrote: ``trunk.2 (Dropout)``."""
    modules: tuple[str, ...] = ()
    """All modules that wrote at this line, to what this backward needs; it is one of them."""
    by: Literal["backward", "buffer broadcast"] | None = None
    """The part of torch that wrote without a request of the program's: backward, which adds gradients up in
    place, or DistributedDataParallel at the start of a forward."""
    past_counter: PastCounter | None = None
    """The way it passed torch's version counter; None if it didn't, or the way isn't known."""
    undeclared: str | None = None
    """The operator whose schema declares no write, with its namespace: ``mylib::scale``."""
    shape_only: bool = False
    """Whether no element was written: the operation changed shape and strides (``t_``, ``squeeze_``)."""
    reached: Reached = "same"
    """The reached memory, as seen from the saved tensor."""

    @staticmethod
    def overwriting(writes: Sequence[Write]) -> tuple[Write, ...]:
        """Return those that touched a needed element; if torch compares no counter, others did no harm."""
        return tuple(write for write in writes if write.overlaps_needed)

    @staticmethod
    def culprit(writes: Sequence[Write]) -> Write | None:
        """Return the first that touched a needed element, where reports point; else the last, or None."""
        # torch refuses for any bump of the counter, so a write that touched nothing may be the only one.
        return next(iter(Write.overwriting(writes)), writes[-1] if writes else None)

    @property
    def library(self) -> bool:
        """True if the write itself happened in library code below the user's line."""
        return self.site is not None and (self.site.library or bool(self.site.below))
