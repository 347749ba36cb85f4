"""Facts for a judgement, frozen: of a saved tensor at its unpack, or of one of torch's refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..model import Frame, Need, Save, Site, Variant, Write


@dataclass(frozen=True, slots=True)
class GradientMemory:
    """The parameter whose ``.grad`` is the saved tensor; backward itself writes to it."""

    parameter: str  # its module path
    in_bucket: bool
    """Whether it is a view of a bucket of DistributedDataParallel (``gradient_as_bucket_view=True``)."""


@dataclass(frozen=True, slots=True, kw_only=True)  # nnsight gives `object` a `save`: a default before others
class Evidence:
    """Facts for a judgement, with sources and names already looked up."""

    save: Save
    writes: tuple[Write, ...]  # every write to its storage since the save, oldest first
    need: Need
    moved: bool
    """Whether the version counter has changed, and torch's own check refuses or nothing else is known."""
    changed: bool  # whether at least one saved element is known to differ from its saved value
    value_known: bool
    """Whether the saved value is known exactly: the memory as it is, or rebuilt from undo records."""
    carried: bool
    """Whether the backward call before, from the same line, kept this part of the graph
    (``retain_graph=True``), and the same weight was used on its results since."""
    feeds_others: bool  # whether a step wrote last, and backward also goes to leaves of what read this
    changed_too: tuple[Site | None, ...]
    """Save sites of other tensors that have changed and that the same backward has yet to read."""
    unread: bool  # whether no computed gradient reads its values
    keeps_history: bool  # whether an operation made it, and its history has none of the writes
    unseen: bool  # whether the counter changed more often than the observed writes explain
    storage_swapped: bool  # whether ``.data =`` gave the saved leaf other memory
    torch_message: str | None = None
    """The message of torch's own check for this tensor; None if it doesn't refuse."""
    detached: Write | None = None
    """The ``detach_()`` that dropped the saved tensor's history, if torch needs that history."""
    kept_bytes: int = 0  # bytes of overwritten values that are kept for this save's storage
    repaired: bool = False  # whether backward got the value as it was saved
    kind: Literal["saved", "ctx", "recompute", "cache"] = "saved"
    """The holder of the tensor: autograd, an attribute of a custom Function's ``ctx``, a checkpoint's
    code, which reads it again although no operation saved it, or selective checkpointing's cache."""
    read: Site | None = None  # the line of the recomputation that reads the tensor
    line_range: str | None = None
    """The lines between which the content changed without an observed write, as a sentence; else None."""
    handed_out: bool = False  # whether the program is known to have given its memory to code outside of torch
    written: Write | None = None
    """The one statement that can have made that change; None if there are several."""
    past_torch: str | None = None
    """Such a sentence on a change past torch in addition to the shown writes; None if there is none."""
    unchecked: bool = False
    """Whether saved-tensor hooks kept the tensor, so that torch compared no version counters."""
    differentiated: bool = False
    """Whether a derivative of a further ``torch.func`` transform flows through the tensor."""
    gradient_memory: GradientMemory | None = None
    """The parameter of the gradient, if backward may have written to this memory as a gradient; else None."""

    @property
    def overwriting(self) -> tuple[Write, ...]:
        return Write.overwriting(self.writes)

    @property
    def culprit(self) -> Write | None:
        return Write.culprit(self.writes)


@dataclass(frozen=True, slots=True)
class ModuleHook:
    """A full backward hook that made a view, or a forward hook that made a leaf."""

    module: str | None = None  # the module's label, `trunk.2 (Dropout)`; None if it isn't known
    given: bool = False  # whether the view was the module's input; else it was the output
    name: str | None = None  # the name of the hook's function


@dataclass(frozen=True, slots=True)
class RefusalEvidence:
    """Facts for a refusal at once: torch has raised, and these are the facts that its message leaves out."""

    code: str  # the code of torch's message
    torch_message: str
    write: Write | None  # the refused operation; it may be one that only reads
    variant: Variant | None = None  # the variant of the code's sentence, if the code has several
    made: Save | None = None  # the line that made the leaf or the view; None if that isn't certain
    how: str | None = None
    """The operation that made it, in the user's words: ``chunk``, ``[]``, ``iteration``, ``Parameter``."""
    leaf: str | None = None
    """The user's name of the leaf that was about to be written, itself or through a view."""
    leaf_here: str | None = None  # an expression that is the leaf at the refused line
    leaf_shown: bool = False  # whether ``made`` is the leaf itself, because the refused line makes the view
    module_hook: ModuleHook | None = None
    """UC203, UC205: set if the views are made by torch's own Function, for a module's full backward hooks;
    UC201, UC202: the hook that makes what its module returns a leaf."""
    used: Need | None = None
    """The line that only used a view whose memory had been written before; None if the line itself writes."""
    sharded: str | None = None  # the path of the module of which FSDP1 made this parameter a view
    written_outside: bool = False
    """Whether another function than that module's own ``forward`` is known to have written it."""
    saver: Save | None = None  # the operation that was about to save the tensor, if torch refused the save
    out_of_place: str | None = None
    """The refused statement as one that makes a new tensor: ``h = h.clamp(0)``."""
    read_through: bool = False
    """Whether the refused statement hands what it writes to nothing, and no name keeps it: what it is a view
    of is read instead."""
    saved_at: Site | None = None  # the first line that saved the written memory for a backward to come
    parameter: bool = False
    """Whether the leaf is an ``nn.Parameter``, whose name can't be given to a plain tensor."""
    carries_gradient: bool = False
    """Whether a gradient is to flow through the write, which ``no_grad`` would drop."""
    expanded: Literal["refused", "shared"] | None = None
    """Set if elements of the target share memory, so that ``no_grad`` doesn't help: torch refuses the write
    all the same, or it changes other elements, too."""
    batched: str | None = None  # UC209: the user's expression for a tensor of the line that has a batch
    in_no_grad: str | None = None
    """The refused write in a ``with torch.no_grad():`` on one line, if it fits."""
    remainder: str | None = None
    """The refused statement without that write, if it computes with the result: ``s = scale.exp()``."""


@dataclass(frozen=True, slots=True)
class FreedEvidence:
    """Facts for UC301: backward has reached a node whose saved tensors are freed."""

    torch_message: str
    saved: Save | None  # the operation of the node
    freed: Need | None  # the backward that freed it
    needed: Need | None  # the backward that failed; None if the user's line read a node's attribute
    reentrant: Literal["two", "around"] | None = None
    """Set if a checkpoint with ``use_reentrant=True`` ran one of both backwards inside one call of the
    program's: another such checkpoint ran the other one, or that call itself was it."""
    same_root: bool = False  # whether both backwards began at the same tensor
    same_forward: bool = False  # whether this loss was computed before the earlier backward, too
    joined: Save | None = None
    """The last operation of the new graph on the way to the freed one; None if both begin at a tensor, or if
    its line isn't certain."""
    cached: str | None = None
    """The function that ran the freed operation, if ``functools`` keeps its results: ``Bias.table``."""
    hidden_state: tuple[str, ...] = ()
    """The variables or attributes through which that operation still references an earlier run's result."""
    attribute: str | None = None
    """The one attribute of an object that holds a tensor of this graph: ``block.state``."""
    attribute_is_freed: bool = False  # whether its tensor is the old graph's result itself, not this run's
    in_place: bool = False  # whether the attribute, or all of the hidden state, are buffers written in place
    detached: str | None = None
    """The statement that sets the attribute or hidden state detached: ``self.state = h.detach()``."""
    cut: Frame | None = None
    """The place of that statement: the line that sets the attribute, else the last line of the statement with
    the failed backward, after which the state must be detached."""
    root: str | None = None  # the user's expression for the tensor that backward began at
    donated: bool = False
    """Whether nothing is freed, but compiled code uses up what it saved; ``freed`` is then the one earlier
    backward, which didn't keep its graph, or None."""


@dataclass(frozen=True, slots=True)
class StaleEvidence:
    """torch's own version check refused a tensor that was saved unobserved."""

    torch_message: str | None  # None if torch goes on, because compiled code makes no such check
    needed: Need | None
    saved: Save | None = None
    """Set if compiled code saved and overwrote it, which torch mostly refuses while it compiles."""
    writes: tuple[Write, ...] = ()  # the writes to it in compiled code


@dataclass(frozen=True, slots=True)
class RunsEvidence:
    """A checkpoint's recomputation saved other tensors than its forward."""

    torch_message: str
    forward: Save | None
    """The first save of the forward that has no equal in the recomputation; None if there is none more."""
    again: Save | None  # the recomputation's in its place
    needed: Need  # the backward that ran it
    values: tuple[tuple[str, str, str], ...] = ()
    """Values that the code reads and that have changed since the forward began: name, before, now."""
    written: tuple[str, ...] = ()  # tensors that the code reads and that were written since, by name
    random: str | None = None  # the generator whose numbers are others: ``torch`` or ``random``
