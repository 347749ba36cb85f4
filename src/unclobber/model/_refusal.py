"""What is known of a write (or a save) that torch refused on the spot."""

from __future__ import annotations

from dataclasses import dataclass

from ._need import Need
from ._save import Save
from ._site import Frame
from ._write import Write
from .codes import Variant


@dataclass(frozen=True, slots=True)
class ModuleHook:
    """A full backward hook through which a view came to be."""

    module: str | None = None
    """``trunk.2 (Dropout)``; None where it isn't known."""
    given: bool = False
    """The module was given the view; else it returned it."""
    name: str | None = None
    """What the hook's function is called."""


@dataclass(frozen=True, slots=True)
class RefusalEvidence:
    """Facts for a refusal on the spot: torch has raised, and this is what it left out."""

    code: str
    """The code that torch's message belongs to."""
    torch_message: str
    write: Write | None
    """The refused operation; it may be one that only reads."""
    variant: Variant | None = None
    """Which of the code's sentences it is, where it has several."""
    made: Save | None = None
    """Where the leaf or the view was made; None where that isn't certain."""
    how: str | None = None
    """The operation that made it as the user wrote it: ``chunk``, ``[]``, ``iteration``, ``Parameter``."""
    leaf: str | None = None
    """The user's name of the leaf that was to be written, itself or through a view."""
    leaf_shown: bool = False
    """``made`` is the leaf itself, because the refused line makes the view."""
    module_hook: ModuleHook | None = None
    """UC205: the Function is torch's own, for a module's full backward hooks."""
    used: Need | None = None
    """The line that only used a view whose memory had been written before; the write is not known."""
    saver: Save | None = None
    """The operation that was to save it, if that is what was refused."""
    out_of_place: str | None = None
    """The refused statement as one that makes a new tensor: ``h = h.clamp(0)``."""
    parameter: bool = False
    """The leaf is an ``nn.Parameter``: its name can't be given to a plain tensor."""
    expanded: bool = False
    """Elements of what was to be written share their memory: grad mode is not all that forbids it."""
    in_no_grad: str | None = None
    """The refused statement in a ``with torch.no_grad():`` of one line, where it fits in one."""


@dataclass(frozen=True, slots=True)
class FreedEvidence:
    """Facts for UC301: backward has reached a node whose saved tensors are freed."""

    torch_message: str
    saved: Save | None
    """The operation that the node belongs to."""
    freed: Need | None
    """The backward that freed it."""
    needed: Need | None
    """The backward that failed; None where the user's line read a node's attribute."""
    same_root: bool = False
    """Both backwards began at the same tensor."""
    joined: Save | None = None
    """The last operation of the new graph on the way to the freed one, where the two differ."""
    hidden_state: tuple[str, ...] = ()
    """The variables or attributes through which that operation still references an earlier run's result."""
    attribute: str | None = None
    """The one attribute of an object in which a tensor of this graph lies: ``block.state``."""
    attribute_is_freed: bool = False
    """Its tensor is the old graph's result itself, not this run's."""
    detached: str | None = None
    """The statement that sets the attribute, or the hidden state, with a ``.detach()``:
    ``self.state = h.detach()``."""
    cut: Frame | None = None
    """Where that belongs: the line of the one statement that sets the attribute, else the last line of the
    statement with the backward that failed, behind which the state is to be cut off."""
    root: str | None = None
    """The user's expression for the tensor that backward began at."""


@dataclass(frozen=True, slots=True)
class StaleEvidence:
    """torch's own version check refused a tensor that was saved where we did not look."""

    torch_message: str
    needed: Need | None
    in_transform: bool = False
    """Inside of a transform of ``torch.func``, which allows no hooks; else before watching began."""
