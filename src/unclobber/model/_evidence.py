"""Facts about one saved tensor at the time when backward unpacks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ._need import Need
from ._save import Save
from ._site import Site
from ._write import Write


@dataclass(frozen=True, slots=True)
class GradientMemory:
    """The parameter whose ``.grad`` is the saved tensor; backward itself writes to it."""

    parameter: str
    """Its module path."""
    in_bucket: bool
    """Whether it is a view of a bucket of DistributedDataParallel (``gradient_as_bucket_view=True``)."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Facts for a judgement, with sources and names already looked up."""

    save: Save
    writes: tuple[Write, ...]
    """Every write to its storage since the save, oldest first."""
    need: Need
    moved: bool
    """Whether the version counter has changed, and torch's own check refuses or nothing else is known."""
    changed: bool
    """Whether at least one saved element is known to differ from its saved value."""
    value_known: bool
    """Whether the saved value is known exactly: the memory as it is, or rebuilt from undo records."""
    went_before: bool
    """Whether the backward call before, from the same line, kept this part of the graph
    (``retain_graph=True``)."""
    changed_too: tuple[Site | None, ...]
    """Save sites of other tensors that have changed and that the same backward has yet to read."""
    unread: bool
    """Whether no computed gradient reads its values."""
    unseen: bool
    """Whether the counter changed more often than the observed writes explain."""
    storage_swapped: bool
    """Whether ``.data =`` gave the saved leaf other memory."""
    torch_message: str | None
    """The message of torch's own check for this tensor; None if it doesn't refuse."""
    detached: Write | None = None
    """The ``detach_()`` that dropped the saved tensor's history, if torch needs that history."""
    kept_bytes: int = 0
    """Bytes of overwritten values that are kept for this save's storage."""
    repaired: bool = False
    """Whether backward got the value as it was saved."""
    kind: Literal["saved", "ctx", "recompute"] = "saved"
    """The holder of the tensor: autograd, an attribute of a custom Function's ``ctx``, or a checkpoint's
    code, which reads it again although no operation saved it."""
    read: Site | None = None
    """The line of the recomputation that reads the tensor."""
    line_range: str | None = None
    """The lines between which the content changed without an observed write, as one sentence; None if it
    didn't."""
    written: Write | None = None
    """The one statement that can have made that change; None if there are several."""
    past_torch: str | None = None
    """Such a sentence on a change past torch in addition to the shown writes; None if there is none."""
    unchecked: bool = False
    """Whether saved-tensor hooks kept the tensor, so that torch compared no version counters."""
    gradient_memory: GradientMemory | None = None
    """The parameter of the gradient, if backward may have written to this memory as a gradient; else None."""
