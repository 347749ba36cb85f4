"""The history of a saved tensor's memory: the events and states behind a drawn timeline."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ..model import Finding, Save, Site, Write
from . import _labels as labels
from . import _words as words
from . import story
from ._cells import clean, clip
from ._past_counter import through
from .story import Fact, Kind, refused_at

State = Literal["intact", "overwritten", "freed"]

_STATES: dict[State, str] = {"intact": "as saved", "overwritten": "overwritten", "freed": "freed"}
_LONGEST = 22


@dataclass(frozen=True, slots=True)
class Event:
    """An event in the history of the memory."""

    number: int
    kind: Kind
    fact: Fact
    at: float  # position in percent from the left
    title: str
    where: str  # file name and line, short enough for a label
    place: str  # path and line
    details: list[tuple[str, str, bool]]  # name, value, and whether the value is code
    stack: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StateSpan:
    """The state of the memory between two events."""

    start: float
    width: float
    state: State
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Events from left to right, with the states between them."""

    events: tuple[Event, ...]
    spans: tuple[StateSpan, ...]
    kept: StateSpan | None  # the values that guard kept outside the memory, from the first overwrite on
    caption: str
    main: int  # number of the event to explain first


def timeline(finding: Finding) -> Timeline:
    """Return the timeline with all events of a finding, even those whose line is not known."""
    # The page has room for as many events as MOST_EVENTS; the notes count the other writes.
    facts = story.events(finding)
    step = 100.0 / max(len(facts) - 1, 1)
    events = tuple(
        _event(finding, number, kind, fact, step * number if len(facts) > 1 else 50.0)
        for number, (kind, fact) in enumerate(facts)
    )
    spans: list[StateSpan] = []
    state: State = "intact"
    for event, after in pairwise(events):
        state = _state(finding, event, state)
        spans.append(StateSpan(event.at, after.at - event.at, state, _STATES[state]))
    return Timeline(events, tuple(spans), _kept(finding, spans), _caption(finding), _main(finding, events))


def _state(finding: Finding, event: Event, before: State) -> State:
    fact = event.fact
    if event.kind == "freed":
        return "freed"
    if isinstance(fact, Write) and fact.overlaps_needed and not finding.harmless:
        return "overwritten"
    return before


def _kept(finding: Finding, spans: list[StateSpan]) -> StateSpan | None:
    """Return the span during which guard kept the overwritten values; None if it kept none."""
    dirty = [span for span in spans if span.state == "overwritten"]
    if not finding.repaired or not dirty:
        return None
    start = dirty[0].start
    return StateSpan(start, dirty[-1].start + dirty[-1].width - start, "intact", "kept by guard")


def _caption(finding: Finding) -> str:
    """Return the caption: the tensor's name, shape, dtype and size, as far as they are known."""
    save = finding.saved
    if save is None:
        return "The tensor's memory"
    name = save.name or save.expression
    text = f"Memory of {words.tick(name)}" if name else "The tensor's memory"
    if save.dtype == "unknown":
        return clean(text)
    return clean(f"{text}: {words.tensor(save.shape, save.dtype)}, {words.size(save.bytes)}")


def _main(finding: Finding, events: tuple[Event, ...]) -> int:
    # The write that hit, or for a freed graph the freeing backward.
    writes = [event for event in events if isinstance(event.fact, Write)]
    overlapping = [e.number for e in writes if isinstance(e.fact, Write) and e.fact.overlaps_needed]
    freed = [event.number for event in events if event.kind == "freed"]
    refused = [event.number for event in events if _is_refused(finding, event.fact)]
    return next(iter([*overlapping, *(event.number for event in writes), *freed, *refused]), 0)


def _is_refused(finding: Finding, fact: Fact) -> bool:
    """Return whether this is the place at which torch refused an operation that saves or needs a gradient."""
    return fact.site is not None and fact.site is refused_at(finding)


def _event(finding: Finding, number: int, kind: Kind, fact: Fact, at: float) -> Event:
    """Build one event; its title depends on the stage of the finding."""
    site = fact.site
    title: str = "written" if kind == "write" else kind
    if finding.entry.stage == "write":
        title = {"saved": "made", "write": "refused"}.get(kind, title)
        if _is_refused(finding, fact):
            title = "refused"
    elif kind == "write" and isinstance(fact, Write) and fact.overlaps_needed and not finding.harmless:
        title = "overwritten"
    return Event(
        number=number,
        kind=kind,
        fact=fact,
        at=at,
        title=title,
        where=_short(site),
        place=clean(f"{words.path(site.path)}:{site.line}") if site else "line not known",
        details=_details(finding, fact),
        stack=_stack(site),
    )


def _short(site: Site | None) -> str:
    if site is None:
        return "line not known"
    name = site.path.replace("\\", "/").rpartition("/")[2]
    line = f":{site.line}"
    return clip(clean(name), _LONGEST - len(line)) + line


def _stack(site: Site | None) -> tuple[str, ...]:
    if site is None:
        return ()
    # Library frames explain nothing, unless there are no others.
    frames = [frame for frame in site.stack if not frame.library] or list(site.stack)
    return tuple(clean(f"{words.path(f.path)}:{f.line} in {f.function}") for f in frames)


def _details(finding: Finding, fact: Fact) -> list[tuple[str, str, bool]]:
    """Return the non-empty details of one event as (name, value, whether it is code)."""
    if isinstance(fact, Save):
        details = _of_save(finding, fact)
    elif isinstance(fact, Write):
        details = _of_write(finding, fact)
    else:
        details = [("backward", f"the {words.ordinal(fact.nth)} call", False), ("node", fact.node, True)]
    if fact.site is not None:
        details.append(("function", fact.site.function, True))
    return [(name, clean(words.flattened(value)), code) for name, value, code in details if value]


def _of_save(finding: Finding, save: Save) -> list[tuple[str, str | None, bool]]:
    """Return a save's details; its label only if no line shows it."""
    role = f"{save.node}, as {save.role}" if save.node and save.role else save.node or save.role
    return [
        ("tensor", None if save.site else labels.label(finding, "saved", save), False),
        ("version", None if save.dtype == "unknown" else str(save.version), False),
        ("kept by", role, True),
        ("derivative", None if save.why_words else save.why, True),
    ]


def _missed(write: Write) -> str:
    if write.shape_only or write.reached == "none":
        return "no element"
    return {"same": "other elements only", "other": "other memory", "former": "former memory"}[write.reached]


def _of_write(finding: Finding, write: Write) -> list[tuple[str, str | None, bool]]:
    """Return a write's details; its label only if no line shows it."""
    refused = finding.entry.stage == "write"
    touches = "needed elements" if write.overlaps_needed else _missed(write)
    return [
        ("write", None if write.site else labels.label(finding, "write", write), False),
        ("written", write.expression, True),
        ("touches", None if refused else touches, False),
        ("parameters", words.listing(write.parameters), True),
        ("through", None if refused else through(write), False),
    ]
