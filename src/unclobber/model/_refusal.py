"""Facts about a write (or a save) that torch refused at once."""

from __future__ import annotations

from dataclasses import dataclass

from ._need import Need
from ._save import Save
from ._site import Frame
from ._write import Write
from .codes import Variant


@dataclass(frozen=True, slots=True)
class ModuleHook:
    """A full backward hook that made a view."""

    module: str | None = None
    """The module's label, ``trunk.2 (Dropout)``; None if it isn't known."""
    given: bool = False
    """Whether the view was the module's input; else it was the output."""
    name: str | None = None
    """The name of the hook's function."""


@dataclass(frozen=True, slots=True)
class RefusalEvidence:
    """Facts for a refusal at once: torch has raised, and these are the facts that its message leaves out."""

    code: str
    """The code of torch's message."""
    torch_message: str
    write: Write | None
    """The refused operation; it may be one that only reads."""
    variant: Variant | None = None
    """The variant of the code's sentence, if the code has several."""
    made: Save | None = None
    """The line that made the leaf or the view; None if that isn't certain."""
    how: str | None = None
    """The operation that made it, in the user's words: ``chunk``, ``[]``, ``iteration``, ``Parameter``."""
    leaf: str | None = None
    """The user's name of the leaf that was about to be written, itself or through a view."""
    leaf_shown: bool = False
    """Whether ``made`` is the leaf itself, because the refused line makes the view."""
    module_hook: ModuleHook | None = None
    """UC205: set if the Function is torch's own, for a module's full backward hooks."""
    used: Need | None = None
    """The line that only used a view whose memory had been written before; None if the line itself writes."""
    saver: Save | None = None
    """The operation that was about to save the tensor, if torch refused the save."""
    out_of_place: str | None = None
    """The refused statement as one that makes a new tensor: ``h = h.clamp(0)``."""
    parameter: bool = False
    """Whether the leaf is an ``nn.Parameter``, whose name can't be given to a plain tensor."""
    expanded: bool = False
    """Whether elements of the target share memory, so that torch refuses the write under ``no_grad``
    as well."""
    in_no_grad: str | None = None
    """The refused statement in a ``with torch.no_grad():`` on one line, if it fits."""


@dataclass(frozen=True, slots=True)
class FreedEvidence:
    """Facts for UC301: backward has reached a node whose saved tensors are freed."""

    torch_message: str
    saved: Save | None
    """The operation of the node."""
    freed: Need | None
    """The backward that freed it."""
    needed: Need | None
    """The backward that failed; None if the user's line read a node's attribute."""
    same_root: bool = False
    """Whether both backwards began at the same tensor."""
    joined: Save | None = None
    """The last operation of the new graph on the way to the freed one; None if both began at the same
    tensor."""
    hidden_state: tuple[str, ...] = ()
    """The variables or attributes through which that operation still references an earlier run's result."""
    attribute: str | None = None
    """The one attribute of an object that holds a tensor of this graph: ``block.state``."""
    attribute_is_freed: bool = False
    """Whether its tensor is the old graph's result itself, not this run's."""
    detached: str | None = None
    """The statement that sets the attribute, or the hidden state, with a ``.detach()``: ``self.state =
    h.detach()``."""
    cut: Frame | None = None
    """The place of that statement: the line that sets the attribute, else the last line of the statement with
    the failed backward, after which the state must be detached."""
    root: str | None = None
    """The user's expression for the tensor that backward began at."""


@dataclass(frozen=True, slots=True)
class StaleEvidence:
    """torch's own version check refused a tensor that was saved unobserved."""

    torch_message: str
    needed: Need | None
    in_transform: bool = False
    """Whether it was saved in a transform of ``torch.func``, which allows no hooks; else before watching
    began."""
