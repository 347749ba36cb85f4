"""Facts on the memory of one step: frozen, without torch."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Literal

from ..model import SpanEdit, cell_name

Kind = Literal["parameter", "buffer", "input", "activation", "gradient", "temporary"]
"""Kinds of storages. The first three live anyway; forward makes an ``activation``, backward a leaf's
``gradient``, or a ``temporary`` for an inner gradient."""


@dataclass(frozen=True, slots=True)
class Location:
    """A line of source: the innermost one outside torch and the standard library."""

    path: str
    line: int  # 1-based
    function: str
    source: str  # the expression that ran, or the line
    called_from: tuple[str, int] | None = None
    """The user's own line (path, line) that led there, where the place is in an installed package."""


def short(place: Location | None) -> str:  # with its folder's name if the file name alone says little
    if place is None:
        return "(unknown line)"
    folder, name = os.path.split(place.path)
    if name in ("__init__.py", "__main__.py"):
        name = f"{os.path.basename(folder)}/{name}"
    return f"{cell_name(place.path) or name}:{place.line}"


_PUBLIC = {
    **dict.fromkeys(("self", "mat1", "batch1", "tensor1"), "input"),
    **dict.fromkeys(("mat2", "batch2", "tensor2", "vec2"), "other"),
    "output": "result",
}
"""Names of arguments in torch's derivative table, as functions that the program calls have them."""
_LINEAR = {"input": "grad of weight = grad.T @ input", "weight": "grad of input = grad @ weight"}
"""Why ``linear`` keeps each: the products underneath take the transposed weight and an ``alpha``."""
_OTHER: dict[str | None, str] = {"linear": "weight", "dropout": "mask"}
"""Names of the second operand in functions that are products underneath."""


@dataclass(frozen=True, slots=True)
class Role:
    """A use that backward has for a storage."""

    operation: str | None
    """Operation name in torch's derivative table; None if no graph of this step's backward holds the save."""
    role: str | None
    why: str | None  # the derivative that reads it
    place: Location | None
    module: str | None
    shape: tuple[int, ...]
    function: str | None = None
    """The torch function that the program called: ``linear`` for the operation ``addmm``."""

    @property
    def by(self) -> str:
        return self.function or self.operation or "an operation"

    @property
    def what(self) -> str:  # as torch's functions name it: `input` for `mat1`
        role = self.role or "a tensor"
        return "result" if role.startswith("result") else self._public(role)

    @property
    def reason(self) -> str:
        # torch's table has the derivative of `addmm`, which the program never called.
        if self.function == "linear" and self.why and self.what in _LINEAR:
            return _LINEAR[self.what]
        return re.sub(r"[a-z]+\d?", lambda name: self._public(name[0]), self.why or "")

    def _public(self, name: str) -> str:
        public = _PUBLIC.get(name, name)
        return _OTHER.get(self.function, public) if public == "other" else public


@dataclass(frozen=True, slots=True)
class KeptStorage:
    """A storage that backward keeps alive. It counts once, under however many names it was saved."""

    bytes: int  # size of the whole storage
    kind: Kind
    dtype: str
    shape: tuple[int, ...]  # shape of the first tensor that was saved of it
    roles: tuple[Role, ...]  # roles of all its saves, in order; its bytes are charged to the first one's line
    made_at: Location | None  # the line that computed it; None if it was there before
    made_by: str | None
    since: int  # tick of the first save
    until: int  # tick after which the last save of it was gone
    needed: bool  # whether the recorded backward unpacked it
    at_peak: bool


@dataclass(frozen=True, slots=True)
class LineTotal:
    """Bytes that one line keeps for backward at the peak."""

    place: Location | None
    bytes: int
    kept: tuple[int, ...]
    """Positions in ``StepMemory.kept``."""
    operations: tuple[str, ...]
    modules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModuleTotal:
    """Bytes that one module keeps for backward at the peak."""

    path: str
    """Path from the module that was called first; empty for that one itself."""
    kind: str
    """The name of its class."""
    tree: int
    """Number of its outermost module, in the order of their first calls."""
    calls: int
    bytes: int
    """Bytes kept by it and the modules inside it."""
    own: int
    """Bytes kept by it without the modules inside it."""


@dataclass(frozen=True, slots=True)
class LiveBytes:
    """Live bytes of every kind at one tick."""

    tick: int
    kept: int  # activations that a save keeps alive
    other: int  # activations that only the program's own variables, or the running operation, keep alive
    gradients: int
    temporaries: int
    lasting: int  # parameters, buffers and inputs
    place: int | None = None
    """Position in ``StepMemory.places`` of the forward line that runs, or whose backward runs."""

    @property
    def total(self) -> int:
        return self.kept + self.other + self.gradients + self.temporaries + self.lasting

    @property
    def step(self) -> int:
        return self.total - self.lasting  # without what lives anyway


@dataclass(frozen=True, slots=True)
class Peak:
    """The tick with the most live bytes."""

    moment: LiveBytes
    phase: Literal["forward", "backward"]
    operation: str
    saved_lasting: int  # bytes of parameters, buffers and inputs that backward reads too; they live anyway


@dataclass(frozen=True, slots=True)
class GradientLife:
    """A gradient that backward made on its way, with its life."""

    bytes: int
    place: Location | None  # the forward line whose backward made it
    operation: str
    born: int
    freed: int | None  # tick at which it was freed; None if it was alive at the end
    leaf: str | None = None  # the leaf whose gradient it is; None for an inner gradient


@dataclass(frozen=True, slots=True)
class InPlaceUse:
    """An in-place operation that the program has."""

    place: Location | None
    operation: str
    times: int
    bytes: int  # bytes that it wrote, all times together
    peak_saved: int  # bytes by which the peak would be higher if it were out-of-place
    reason: str


@dataclass(frozen=True, slots=True)
class InPlaceCandidate:
    """An out-of-place operation that could be in-place, because no code reads the old value afterwards."""

    place: Location | None
    operation: str
    """The in-place form, such as ``relu_``."""
    operand: str
    """The argument that would be written: ``self`` or ``other``."""
    modules: tuple[str, ...]
    times: int
    bytes: int
    peak_drop: int
    """Bytes by which the peak drops if this line alone is changed."""
    keys: tuple[tuple[object, ...], ...] = field(default=(), repr=False, compare=False)
    """Keys that recognise its calls in another run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A comparison of another run with the first: loss, gradients and peak."""

    peak_before: int
    peak_after: int = 0
    """Bytes of the step alone."""
    equal_loss: bool = False
    gradients: int = 0
    rounded_gradients: int = 0
    """Gradients that differ by rounding: elu in place computes its slope from the result."""
    changed_gradients: int = 0
    """Gradients that differ by more than rounding: the change is not safe after all."""
    largest_difference: float = 0.0
    """Largest difference of any gradient's element, relative to that gradient's largest."""
    changed_buffers: int = 0
    """Buffers that ended with other values: running statistics that were updated twice."""
    error: str | None = None
    """The reason why there is nothing to compare; None if the run could be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedInPlace(Compared):
    """Result of a run with all safe candidates in place."""

    substituted: int  # calls that ran in place
    places: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried(Compared):
    """Result of another run, with a change in it."""

    seconds_before: float
    seconds_after: float
    """Seconds of forward and backward, unrecorded; the quicker of two runs. Processor time of all threads;
    on a GPU, time on the clock."""

    @property
    def proved(self) -> bool:
        """Loss, gradients and buffers equal those of the program as it is, rounding aside."""
        return self.error is None and self.equal_loss and not self.changed_gradients + self.changed_buffers

    @property
    def saved(self) -> int:
        return self.peak_before - self.peak_after


Edits = tuple[tuple[SpanEdit, ...], ...]
"""Alternative source edits that make one change, the likeliest first; each is still to be proved."""

Sort = Literal["formula", "mask", "dtype", "twice", "checkpoint", "in-place", "unneeded", "held"]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the program that would lower the peak."""

    sort: Sort
    title: str
    """Description as a phrase."""
    write: str
    """Code to write, or advice as a sentence."""
    place: Location | None
    modules: tuple[str, ...]
    times: int
    """Number of calls that it concerns."""
    predicted: int = 0
    """Bytes by which the peak falls, computed from the recorded timeline."""
    recomputed: float = 0.0
    """Section of forward's arithmetic that is done twice, 0 to 1, estimated from shapes."""
    tried: Tried | None = None
    why_untried: str | None = None
    edits: Edits = field(default=(), repr=False)

    @property
    def saved(self) -> int:
        """Bytes off the peak: measured if it was tried (0 if not proved), else predicted."""
        if self.tried is None:
            return self.predicted
        return self.tried.saved if self.tried.proved else 0


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Several of the changes at once."""

    changes: tuple[int, ...]
    """Positions in ``StepMemory.changes``."""
    predicted: int
    """Bytes of the step at its peak, computed from the timeline."""
    tried: Tried | None = None

    @property
    def peak(self) -> int:
        """Bytes of the step at its peak: measured if it was tried, else predicted."""
        return self.predicted if self.tried is None else self.tried.peak_after


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """The memory of a recorded step. Ticks count its operations: the first one of forward is 1."""

    torch_version: str
    command: tuple[str, ...]
    fake: bool
    step: int
    """Number of the backward that ended the recording, 1-based."""
    backward: bool
    """Whether a backward ran at all."""
    operations: int
    backward_began: int
    ended: int
    peak: Peak | None
    kept: tuple[KeptStorage, ...]
    """Storages kept for backward, largest first."""
    by_line: tuple[LineTotal, ...]
    """Activations kept at the peak by line, largest first."""
    by_module: tuple[ModuleTotal, ...]
    """Modules in the order of their first calls."""
    timeline: tuple[LiveBytes, ...]
    places: tuple[Location, ...]
    gradients: tuple[GradientLife, ...]
    in_place: tuple[InPlaceUse, ...]
    candidates: tuple[InPlaceCandidate, ...]
    together: int
    """Bytes by which the peak drops with all candidates at once."""
    peak_activations: int = 0
    """Live bytes at the peak that forward made."""
    peak_kept: int = 0
    """Largest number of bytes that saves alone kept alive at one tick."""
    trial: TriedInPlace | None = None
    changes: tuple[Change, ...] = ()
    """Changes that would lower the peak, largest saving first."""
    curve: tuple[CurvePoint, ...] = ()
    """Changes taken together; each point has a lower peak than the one before."""
    ended_early: str | None = None
    """The reason why recording stopped before the wanted backward; None if it didn't."""

    @property
    def bytes_by_line(self) -> dict[tuple[str, int], int]:
        """Bytes that each line ``(path, line)`` keeps for backward at the peak, largest first."""
        return {
            ("", 0) if line.place is None else (line.place.path, line.place.line): line.bytes
            for line in self.by_line
        }

    @property
    def unneeded(self) -> tuple[KeptStorage, ...]:
        """Activations kept for a backward that never unpacked them; none if it didn't run to its end."""
        if self.ended_early or not self.backward:
            return ()
        return tuple(kept for kept in self.kept if kept.kind == "activation" and not kept.needed)

    @property
    def shared(self) -> tuple[KeptStorage, ...]:
        """Storages that were saved under several names and count once."""
        return tuple(kept for kept in self.kept if kept.kind == "activation" and len(kept.roles) > 1)
