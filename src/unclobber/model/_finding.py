"""A judgement: the code, the three places and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ._need import Need
from ._save import Save
from ._write import Write
from .codes import CODES, Code, Severity, Variant

Confidence = Literal["high", "medium"]


@dataclass(frozen=True, slots=True)
class Edit:
    """Whole lines of a file, and the lines that are to stand in their place."""

    path: str
    """Absolute."""
    line: int
    """The first of them, 1-based."""
    old: str
    """Their text as it is, at least one line, without the last one's end."""
    new: str
    """The text instead, in the same way."""

    @property
    def end_line(self) -> int:
        """The last of the old lines."""
        return self.line + self.old.count("\n")


@dataclass(frozen=True, slots=True)
class Fix:
    """A way out. ``verified`` only where it was run and compared."""

    title: str
    diff: str | None = None
    """Unified diff, or None for advice in words."""
    verified: str | Literal[False] = False
    """``whole-run``: the same to the end; ``backward-3``: the same losses and gradients up to the 3rd
    backward call; False: not run."""
    code: str | None = None
    """The one line to write, where there is one: ``d = torch.zeros_like(d)``."""
    guard: bool = False
    """It is to run the program as it is under ``guard``; reports add what that costs."""
    general: bool = False
    """It is advice in general words, which a concrete edit makes superfluous."""
    edits: tuple[Edit, ...] = ()
    """The lines to change, in the order of their files and lines; a candidate unless ``verified``."""
    proved_by: str | None = None
    """The command line that runs the candidate, and proves it or finds another."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, with the places that explain it.

    Example:
        >>> def step():
        ...     w = torch.ones(3, requires_grad=True)
        ...     y = w.exp()
        ...     y += 1
        ...     y.sum().backward()
        >>> (finding,) = unclobber.audit(step).findings
        >>> finding.name, finding.severity, finding.saved.operation, finding.writes[0].expression
        ('saved-overwritten', 'error', 'exp', 'y')
    """

    code: str
    """``UC101`` and so on; ``unclobber explain`` has a page for each."""
    message: str
    """One sentence, in the user's names."""
    variant: Variant | None = None
    """In which of several ways the code came about; None for the usual one."""
    saved: Save | None = None
    """What was kept for backward; of UC2xx, where the leaf or view was made; None where unknown."""
    writes: tuple[Write, ...] = ()
    """Oldest first, only those between the save and the need."""
    needed: Need | None = None
    """The backward that needed it; None where the write itself was refused."""
    freed: Need | None = None
    """UC301 only: the backward that freed the graph."""
    harmless: bool = False
    """No write that was seen changed an element that the derivative needs, nor did a fingerprint of it
    change."""
    fixes: tuple[Fix, ...] = ()
    """Ways out, the most useful first."""
    notes: tuple[str, ...] = ()
    """Further true sentences for the reader, without a trailing full stop."""
    torch_message: str | None = None
    """What plain torch says for the same event; None where it says nothing, or where it has not come to the
    tensor and that can't be told before."""
    kept_bytes: int = 0
    """Bytes that ``guard`` would keep (or kept) for this save."""
    repaired: bool = False
    """Whether ``guard`` handed backward the right value."""
    labels: tuple[tuple[str, str], ...] = field(default=())
    """Texts for the marked places where the standard ones don't fit, by place
    (``saved``, ``write``, ``needed``, ``freed``)."""
    ranks: tuple[int, ...] = ()
    """The ranks of a distributed run that found it; empty for one process."""
    processes: tuple[str, ...] = ()
    """Names of the processes that found it (``MainProcess`` is the program's own), where the program started
    others with ``multiprocessing`` that were watched; empty for one process."""
    ahead: bool = False
    """Backward was refused for another finding before it came to this tensor, which it would refuse, too."""
    times: int = field(default=1, compare=False)
    """How often backward met it; it is told as it was the first time."""
    made: Save | None = None
    """UC206 only: where the tensor was made, if ``saved`` is the operation that was to save it."""
    confidence: Confidence | None = None
    """How certain it is that was found in the source, without a run; None for what was seen."""

    @property
    def entry(self) -> Code:
        """What is said of its code wherever that is met."""
        return CODES[self.code]

    @property
    def name(self) -> str:
        """Its code's: ``saved-overwritten``."""
        return self.entry.name

    @property
    def severity(self) -> Severity:
        """Its code's; a warning for what only may be so."""
        return "warning" if self.confidence == "medium" else self.entry.severity
