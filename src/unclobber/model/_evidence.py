"""What is known of one saved tensor at the time when backward unpacks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ._need import Need
from ._save import Save
from ._site import Site
from ._write import Write


@dataclass(frozen=True, slots=True)
class GradientMemory:
    """The saved tensor is the ``.grad`` of a parameter, to which backward itself writes."""

    parameter: str
    """Its module path."""
    in_bucket: bool
    """It lies in a bucket of DistributedDataParallel (``gradient_as_bucket_view=True``)."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Facts for a judgement, with sources and names already looked up."""

    save: Save
    writes: tuple[Write, ...]
    """Every write to its storage since the save, oldest first."""
    need: Need
    moved: bool
    """The version counter is not what it was, and torch's own check refuses or nothing else is known."""
    changed: bool
    """At least one saved element is known to differ from what was saved."""
    value_known: bool
    """What was saved is known exactly: the memory as it is, or rebuilt from undo records."""
    went_before: bool
    """The backward call before, from the same line, kept this part of the graph (``retain_graph=True``)."""
    changed_too: tuple[Site | None, ...]
    """Where other tensors were saved that the same backward has yet to read, and that have changed."""
    unread: bool
    """No gradient that is computed reads its values."""
    unseen: bool
    """The counter moved more often than the seen writes account for."""
    swapped: bool
    """``.data =`` gave the saved leaf other memory."""
    torch_message: str | None
    """What torch's own check says of this tensor; None where it says nothing."""
    detached: Write | None = None
    """The ``detach_()`` that took the saved tensor's history, where torch minds."""
    kept_bytes: int = 0
    """Bytes of overwritten values that are kept for this save's storage."""
    repaired: bool = False
    """Backward was handed the value as it was saved."""
    kind: Literal["saved", "ctx", "recompute"] = "saved"
    """Who held the tensor: autograd, an attribute of a custom Function's ``ctx``, or nobody: a
    checkpoint's code reads it again."""
    read: Site | None = None
    """Where a recomputation reads it, in the code that is run again."""
    line_range: str | None = None
    """Where the content changed although no write was seen, as one sentence; None where it didn't."""
    written: Write | None = None
    """The one statement that can have changed it then."""
    past_torch: str | None = None
    """The same sentence, where it changed past torch besides the writes that are shown."""
    unchecked: bool = False
    """Saved-tensor hooks kept the tensor: torch compared no version counters."""
    gradient_memory: GradientMemory | None = None
    """Where the version counter moved without a write that was seen, and the memory is a gradient's."""
