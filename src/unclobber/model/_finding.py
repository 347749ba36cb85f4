"""A judgement: the code, the three places and the fixes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Literal

from ._save import Save
from ._site import Need, Site
from ._write import Write
from .codes import CODES, Code, Variant

Confidence = Literal["high", "medium"]


@dataclass(frozen=True, slots=True)
class Edit:
    """Whole lines of a file, and their replacement."""

    path: str
    """Absolute path."""
    line: int
    """The first old line, 1-based."""
    old: str
    """The text of the old lines, at least one, without the last line end."""
    new: str
    """The new text, also without the last line end."""

    @property
    def end_line(self) -> int:
        """The last of the old lines, 1-based."""
        return self.line + self.old.count("\n")


@dataclass(frozen=True, order=True, slots=True)
class SpanEdit:
    """A part of a file, and its replacement."""

    path: str
    line: int
    column: int
    """1-based, in characters."""
    end_line: int
    """The line of the last character."""
    end_column: int
    """The column after the last character."""
    text: str
    """The replacement."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A fix or advice for a finding. ``verified`` is set only if it was run and compared."""

    title: str
    diff: str | None = None
    """Unified diff, or None for advice in words."""
    verified: str | Literal[False] = False
    """``whole-run``: the same to the end; ``backward-3``: the same losses and gradients up to the 3rd
    backward call; False: not run."""
    code: str | None = None
    """The one line to write, if one is enough: ``d = torch.zeros_like(d)``."""
    guard: bool = False
    """Whether it runs the program as it is under ``guard``; reports add the cost."""
    general: bool = False
    """Whether it is general advice, which a concrete edit makes superfluous."""
    edits: tuple[Edit, ...] = ()
    """The lines to change, in the order of their files and lines; a candidate unless ``verified``."""
    proved_by: str | None = None
    """The command line that runs the candidate, and proves it or finds another."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake of a program, with the places that explain it.

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
    """The code, such as ``UC101``; ``unclobber explain`` has a page for each."""
    message: str
    """The message in one sentence, with the user's names."""
    variant: Variant | None = None
    """The variant of the code; None for the usual one."""
    saved: Save | None = None
    """The save; for UC2xx, the line that made the leaf or view; None if unknown."""
    writes: tuple[Write, ...] = ()
    """Oldest first, only those between the save and the need."""
    needed: Need | None = None
    """The backward that needed it; None if the write itself was refused."""
    freed: Need | None = None
    """UC301 only: the backward that freed the graph."""
    harmless: bool = False
    """Whether the observed writes changed no element that the derivative needs, and no fingerprint of it
    changed."""
    fixes: tuple[Fix, ...] = ()
    """Fixes, the most useful first."""
    notes: tuple[str, ...] = ()
    """Further true sentences for the reader, without a trailing full stop."""
    torch_message: str | None = None
    """Plain torch's message for the same event. None if it raises nothing, or if backward stopped before this
    tensor and the message isn't known yet."""
    kept_bytes: int = 0
    """Bytes that ``guard`` would keep (or kept) for this save."""
    repaired: bool = False
    """Whether ``guard`` gave backward the right value."""
    labels: tuple[tuple[str, str], ...] = field(default=())
    """Texts for the marked places if the standard ones don't fit, by place (``saved``, ``write``, ``needed``,
    ``freed``)."""
    ranks: tuple[int, ...] = ()
    """The ranks of a distributed run that found it; empty for one process."""
    processes: tuple[str, ...] = ()
    """Names of the processes that found it, if the program started watched ones with ``multiprocessing``
    (``MainProcess`` is the program's own); empty for one process."""
    ahead: bool = False
    """Whether backward stopped at another finding before this tensor, which it would refuse, too."""
    also: tuple[Save, ...] = field(default=(), compare=False)
    """Other tensors that the same writes spoil: the other parameters of an optimizer's step."""
    times: int = field(default=1, compare=False)
    """The number of occurrences; the finding describes the first one."""
    made: Save | None = None
    """UC206 only: the line that made the tensor, if ``saved`` is the operation that was about to save it."""
    confidence: Confidence | None = None
    """The confidence of a finding from source alone, without a run; None for an observed one."""

    def identity(self, place: Callable[[Site | None], Hashable]) -> tuple[Hashable, ...]:
        """Return what makes two findings one: the code, and each place in the order of events.

        Args:
            place: Returns a place as the caller compares it: by its line, or only by its words, which edits
                of other lines leave as they are.
        """
        return (self.code, *(place(fact.site) for fact in self.facts))

    @property
    def facts(self) -> tuple[Save | Write | Need, ...]:
        """All that is known of its places, in the order of events."""
        facts = (self.made, self.saved, *self.writes, self.freed, self.needed)
        return tuple(fact for fact in facts if fact is not None)

    @property
    def entry(self) -> Code:
        """The texts of the finding's code."""
        return CODES[self.code]

    @property
    def name(self) -> str:
        """The code's name: ``saved-overwritten``."""
        return self.entry.name

    @property
    def blamed(self) -> tuple[Site, ...]:
        """The lines to blame, the one that reports point at first.

        They are the known lines of all writes that overwrote needed elements. If there are none, it is the
        line of the first known write, else the line that needs or saved the tensor.
        """
        overwriting = [write.site for write in self.overwriting if write.site]
        others = [fact.site for fact in (*self.writes, self.needed, self.saved) if fact and fact.site]
        return tuple(overwriting or others[:1])

    @property
    def is_silent(self) -> bool:
        """Return whether a gradient is silently wrong: torch does not refuse, and guard has not repaired."""
        return self.torch_message is None and not self.repaired

    @property
    def overwriting(self) -> tuple[Write, ...]:
        """The writes that touched a needed element."""
        return Write.overwriting(self.writes)

    @property
    def culprit(self) -> Write | None:
        """The first write that touched a needed element, where reports point; else the last, or None."""
        return Write.culprit(self.writes)

    @property
    def severity(self) -> Literal["error", "warning"]:
        """An error; a warning if the confidence is medium."""
        return "warning" if self.confidence == "medium" else "error"
