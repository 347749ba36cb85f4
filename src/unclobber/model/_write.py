"""What overwrote memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ._site import Site

Reached = Literal["same", "other", "former", "none"]
"""What a write reached: the storage of the saved tensor; other memory, that has the same version counter
since ``.data =``; the memory that the saved tensor had before such a change; a tensor without elements."""

PastCounter = Literal[
    "data", "set data", "fused", "elementwise", "undeclared", "statistics", "broadcast", "handed out", "alias"
]
"""How a write left the saved tensor's version counter where it was:

- ``data``: through ``.data``; ``set data``: by ``.data =``.
- ``fused``: by a fused optimizer; ``elementwise``: by a method that runs a Python function on each element.
- ``undeclared``: by an operator whose schema hides the write; ``statistics``: by a kernel of torch's that
  updates running statistics.
- ``broadcast``: by DistributedDataParallel, which sets the counter back.
- ``handed out``: by foreign code that was given the memory, such as NumPy.
- ``alias``: through another tensor with a counter of its own, or the counter was set back.
"""


@dataclass(frozen=True, slots=True)
class Write:
    """A write to the storage of a saved tensor, after the save."""

    site: Site | None
    """The user's line; None where it is not known."""
    operation: str
    """The ATen operation without its overload: ``add_``, ``copy_``."""
    bumps_version: bool
    """Whether torch could see it: the saved tensor's version counter moved."""
    overlaps_needed: bool
    """Whether it touched an element of the saved tensor."""
    version_before: int | None = None
    """The version counter before the write; None where the write left it alone."""
    version_after: int | None = None
    """The same after it."""
    expression: str | None = None
    """The user's expression for what was written: ``d[:]``."""
    count: int = 1
    """How many times this line wrote to this storage between the save and the need."""
    optimizer: str | None = None
    """``opt_d.step()`` or ``Adam.step()`` where the write is an optimizer's."""
    parameters: tuple[str, ...] = ()
    """Module paths of all parameters which that optimizer step wrote and live graphs needed."""
    module: str | None = None
    """The module that wrote: ``trunk.2 (Dropout)``."""
    by: Literal["backward", "buffer broadcast"] | None = None
    """What of torch's own wrote it, where no line of the program asked for the write: backward, which adds
    gradients up in place, or DistributedDataParallel at the beginning of a forward."""
    past_counter: PastCounter | None = None
    """How it got past torch's version counter, where it did and that is known."""
    undeclared: str | None = None
    """The operator whose schema declares no write, with its namespace: ``mylib::scale``."""
    shape_only: bool = False
    """No element was written: the operation changed shape and strides (``t_``, ``squeeze_``)."""
    reached: Reached = "same"
    """Which memory it reached, seen from the saved tensor."""

    @property
    def library(self) -> bool:
        """Whether the write itself happened in library code below the user's line."""
        return self.site is not None and (self.site.library or bool(self.site.below))
