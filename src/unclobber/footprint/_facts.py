"""What is known of the memory of one step: frozen, without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["parameter", "buffer", "input", "activation", "gradient", "temporary"]
"""What a storage is: the first three live anyway, an ``activation`` was made by forward, a
``gradient`` by backward for a leaf, a ``temporary`` by backward on the way."""


@dataclass(frozen=True, slots=True)
class Location:
    """A line of source: the innermost one outside torch and the standard library."""

    path: str
    line: int
    """1-based."""
    function: str
    source: str
    """The expression that ran, or the line."""
    called_from: tuple[str, int] | None = None
    """The user's own line (path, line) that led there, where the place is in an installed package."""


@dataclass(frozen=True, slots=True)
class Role:
    """One use that backward has for a storage."""

    operation: str | None
    """As torch's derivative table calls it; None where no graph of this step's backward holds it."""
    role: str | None
    why: str | None
    """The derivative that reads it."""
    place: Location | None
    module: str | None
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KeptStorage:
    """One storage that backward keeps alive; under however many names, it counts once."""

    bytes: int
    """Of the whole storage."""
    kind: Kind
    dtype: str
    shape: tuple[int, ...]
    """Of the first tensor that was saved of it."""
    roles: tuple[Role, ...]
    """Every save of it, in order; the first one's line is charged with the bytes."""
    made_at: Location | None
    """Where it was computed; None where it was there before."""
    made_by: str | None
    since: int
    """Tick of the first save."""
    until: int
    """Tick after which the last save of it was gone."""
    needed: bool
    """Whether the recorded backward unpacked it."""
    at_peak: bool


@dataclass(frozen=True, slots=True)
class LineTotal:
    """What one line keeps for backward at the peak."""

    place: Location | None
    bytes: int
    kept: tuple[int, ...]
    """Positions in ``MemoryReport.kept``."""
    operations: tuple[str, ...]
    modules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModuleTotal:
    """What one module keeps for backward at the peak."""

    path: str
    """From the module that was called first; empty for that one itself."""
    kind: str
    """The name of its class."""
    tree: int
    """Which outermost module it belongs to, counted in the order of their first calls."""
    calls: int
    bytes: int
    """With the modules inside it."""
    own: int
    """Without them."""


@dataclass(frozen=True, slots=True)
class LiveBytes:
    """The live bytes of every sort at one tick."""

    tick: int
    kept: int
    """Activations that a save keeps alive."""
    other: int
    """Activations that only the program's own variables, or the running operation, keep alive."""
    gradients: int
    temporaries: int
    lasting: int
    """Parameters, buffers and inputs."""
    place: int | None = None
    """Position in ``MemoryReport.places`` of the forward line that runs, or whose backward runs."""

    @property
    def total(self) -> int:
        return self.kept + self.other + self.gradients + self.temporaries + self.lasting

    @property
    def step(self) -> int:
        """Bytes of this step alone, without what lives anyway."""
        return self.total - self.lasting


@dataclass(frozen=True, slots=True)
class Peak:
    """The time with the most live bytes, and how much of what."""

    moment: LiveBytes
    phase: Literal["forward", "backward"]
    operation: str
    saved_lasting: int
    """Bytes of parameters, buffers and inputs that backward reads too; they live anyway."""


@dataclass(frozen=True, slots=True)
class GradientLife:
    """A gradient that backward made on its way, with its life."""

    bytes: int
    place: Location | None
    """The forward line whose backward made it."""
    operation: str
    born: int
    freed: int | None
    """None where it was still alive at the end."""
    leaf: str | None = None
    """What it is the gradient of, for those that stay."""


@dataclass(frozen=True, slots=True)
class InPlaceUse:
    """An in-place operation that the program has."""

    place: Location | None
    operation: str
    times: int
    bytes: int
    """Of what it wrote, all times together."""
    peak_saved: int
    """By how much the peak would be higher had it been out-of-place."""
    reason: str


@dataclass(frozen=True, slots=True)
class InPlaceCandidate:
    """An out-of-place operation that could be in-place: nobody reads the old value afterwards."""

    place: Location | None
    operation: str
    """The in-place form, such as ``relu_``."""
    operand: str
    """The argument that would be written: ``self`` or ``other``."""
    modules: tuple[str, ...]
    times: int
    bytes: int
    peak_drop: int
    """By how much the peak drops if this line alone is changed."""
    keys: tuple[tuple[object, ...], ...] = field(default=(), repr=False, compare=False)
    """Recognise the calls in another run."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The safe candidates made in-place in a second run."""

    substituted: int
    """Calls that ran in place."""
    places: int
    peak_before: int
    peak_after: int
    equal_loss: bool
    gradients: int
    rounded_gradients: int
    """Gradients that differ by rounding: elu in place computes its slope from the result."""
    changed_gradients: int
    """Gradients that differ by more: the change is not safe after all."""
    largest_difference: float
    """The largest difference of any gradient's element, relative to that gradient's largest."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Tried:
    """What another run has shown, with a change in it."""

    peak_before: int
    peak_after: int
    """Bytes of the step alone."""
    seconds_before: float
    seconds_after: float
    """Of forward and backward, without recording; the quicker one of two runs. Processor time of all threads;
    on a GPU, time on the clock."""
    equal_loss: bool
    gradients: int
    rounded_gradients: int
    changed_gradients: int
    largest_difference: float
    """The largest difference of any gradient's element, relative to that gradient's largest."""
    changed_buffers: int = 0
    """Buffers that ended otherwise: running statistics that were updated twice."""
    error: str | None = None
    """Why there is nothing to compare."""

    @property
    def proved(self) -> bool:
        """Whether loss, gradients and buffers are those of the program as it is, rounding aside."""
        return self.error is None and self.equal_loss and not self.changed_gradients + self.changed_buffers

    @property
    def saved(self) -> int:
        return self.peak_before - self.peak_after


@dataclass(frozen=True, slots=True)
class SourceEdit:
    """Another text for a part of a file."""

    path: str
    line: int
    column: int
    """1-based, in characters."""
    end_line: int
    end_column: int
    """One past the last character."""
    text: str


Sort = Literal["formula", "mask", "dtype", "twice", "checkpoint", "in-place", "unneeded", "held"]


@dataclass(frozen=True, slots=True)
class Change:
    """Something that would lower the peak."""

    sort: Sort
    title: str
    """What it is, as a phrase."""
    write: str
    """What to write."""
    place: Location | None
    modules: tuple[str, ...]
    times: int
    """How many calls it concerns."""
    predicted: int
    """By how much the recorded timeline says that the peak would fall."""
    recomputed: float = 0.0
    """The part of forward's arithmetic that is done twice, 0 to 1, estimated from shapes."""
    tried: Tried | None = None
    why_untried: str | None = None
    edits: tuple[tuple[SourceEdit, ...], ...] = field(default=(), repr=False)
    """Ways to make it in the source, the likeliest first; each is still to be proved."""

    @property
    def saved(self) -> int:
        """Measured where it was tried, else predicted."""
        if self.tried is None:
            return self.predicted
        return self.tried.saved if self.tried.proved else 0


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Some of the changes at once."""

    changes: tuple[int, ...]
    """Positions in ``MemoryReport.changes``."""
    predicted: int
    """Bytes of the step at its peak, as the timeline says."""
    tried: Tried | None = None


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """One recorded step. Ticks count its operations: the first one of forward is 1."""

    torch_version: str
    command: tuple[str, ...]
    fake: bool
    step: int
    """Which backward ended the recording, 1-based."""
    backward: bool
    """Whether there was one at all."""
    operations: int
    backward_began: int
    ended: int
    peak: Peak | None
    kept: tuple[KeptStorage, ...]
    """Largest first."""
    by_line: tuple[LineTotal, ...]
    """Largest first; activations at the peak."""
    by_module: tuple[ModuleTotal, ...]
    """In the order of their first calls."""
    timeline: tuple[LiveBytes, ...]
    places: tuple[Location, ...]
    gradients: tuple[GradientLife, ...]
    in_place: tuple[InPlaceUse, ...]
    candidates: tuple[InPlaceCandidate, ...]
    together: int
    """By how much the peak drops with all candidates at once."""
    peak_activations: int = 0
    """Live bytes that forward made, at the peak."""
    peak_kept: int = 0
    """The most bytes that saves alone kept alive at a time."""
    trial: Trial | None = None
    changes: tuple[Change, ...] = ()
    """What would lower the peak, the most first."""
    curve: tuple[CurvePoint, ...] = ()
    """Changes taken together, each step with a lower peak than the one before."""
    ended_early: str | None = None
    """Why recording stopped before the wanted backward, where it did."""

    @property
    def bytes_by_line(self) -> dict[tuple[str, int], int]:
        """Bytes that each line ``(path, line)`` keeps for backward at the peak, largest first."""
        found: dict[tuple[str, int], int] = {}
        for line in self.by_line:
            key = ("", 0) if line.place is None else (line.place.path, line.place.line)
            found[key] = found.get(key, 0) + line.bytes
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @property
    def unneeded(self) -> tuple[KeptStorage, ...]:
        """Activations kept for a backward that never unpacked them."""
        return tuple(kept for kept in self.kept if kept.kind == "activation" and not kept.needed)

    @property
    def shared(self) -> tuple[KeptStorage, ...]:
        """Storages that were saved under several names and count once."""
        return tuple(kept for kept in self.kept if kept.kind == "activation" and len(kept.roles) > 1)
