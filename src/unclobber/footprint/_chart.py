"""Geometry of the two pictures: live bytes over time, and the lives of what is kept."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.text import size
from . import _sentences
from ._facts import LiveBytes, MemoryReport, short

WIDTH = 760
HEIGHT = 260
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 14, 30

_SORTS = (
    ("kept", "kept for backward"),
    ("other", "other activations"),
    ("gradients", "gradients of leaves"),
    ("temporaries", "gradients on their way"),
)

_BARS = 48
"""Kept tensors that are drawn; the report says how many are left out."""

ROW = 9
"""Height of one life with its gap."""


@dataclass(frozen=True)
class Area:
    """A coloured layer of the timeline."""

    sort: str
    label: str
    path: str
    at_peak: int


@dataclass(frozen=True)
class Column:
    """A span of time that shows a text under the pointer."""

    x: float
    width: float
    text: str


@dataclass(frozen=True)
class Chart:
    """The timeline: live bytes by tick."""

    areas: tuple[Area, ...]
    columns: tuple[Column, ...]
    ticks: tuple[tuple[float, str], ...]
    """Height and label of each horizontal line."""
    backward_x: float | None
    peak_x: float
    peak_y: float
    peak_label: str
    label_left: bool


@dataclass(frozen=True)
class Bar:
    """The life of a kept tensor, from its first save to the end of its last."""

    x: float
    y: float
    width: float
    weight: float
    """Its bytes over those of the largest, 0 to 1."""
    line: int
    text: str


@dataclass(frozen=True)
class Lives:
    """The largest kept tensors, a bar for each, in the order of their first save."""

    bars: tuple[Bar, ...]
    height: int
    left_out: int
    left_out_bytes: int


def chart(report: MemoryReport) -> Chart:
    """Compute the geometry of a report's timeline; the report must have one."""
    moments = report.timeline
    top = _rounded(max(moment.step for moment in moments))
    floor = [0] * len(moments)
    areas = []
    peak = report.peak
    assert peak is not None
    for sort, label in _SORTS:
        ceiling = [low + getattr(moment, sort) for low, moment in zip(floor, moments, strict=True)]
        # A layer without bytes is left out, because its path would show as a line.
        if any(a != b for a, b in zip(floor, ceiling, strict=True)):
            upper = _steps(report, moments, ceiling, top)
            lower = _steps(report, moments, floor, top)[::-1]
            points = " L".join(f"{x:.1f},{y:.1f}" for x, y in [*upper, *lower])
            areas.append(Area(sort, label, f"M{points} Z", getattr(peak.moment, sort)))
        floor = ceiling
    columns = []
    for position, moment in enumerate(moments):
        start = _x(report, moment.tick)
        last = position + 1 == len(moments)
        end = WIDTH - RIGHT if last else _x(report, moments[position + 1].tick)
        # At least half a pixel wide, because a narrower column can't be pointed at.
        columns.append(Column(start, max(end - start, 0.5), _moment_text(report, moment)))
    peak_x = _x(report, peak.moment.tick)
    return Chart(
        areas=tuple(areas),
        columns=tuple(columns),
        ticks=tuple((_y(top * n // 4, top), size(top * n // 4)) for n in range(5)),
        backward_x=_x(report, report.backward_began) if report.backward else None,
        peak_x=peak_x,
        peak_y=_y(peak.moment.step, top),
        peak_label=f"peak {size(peak.moment.step)}",
        label_left=peak_x > WIDTH / 2,
    )


def lives(report: MemoryReport) -> Lives:
    """Compute the bars of the largest activations that are kept."""
    charged = {position: number for number, line in enumerate(report.by_line) for position in line.kept}
    every = [(n, storage) for n, storage in enumerate(report.kept) if storage.kind == "activation"]
    shown = sorted(every[:_BARS], key=lambda item: (item[1].since, item[1].until))
    most = max((storage.bytes for _, storage in shown), default=1)
    bars = []
    for row, (position, storage) in enumerate(shown):
        start, end = _x(report, storage.since), _x(report, storage.until)
        bars.append(
            Bar(
                x=start,
                y=row * ROW,
                width=max(end - start, 1.5),
                # Tensors without elements are kept, too.
                weight=storage.bytes / most if most else 0.0,
                # A tensor that isn't kept at the peak is charged to no line.
                line=charged.get(position, -1),
                text=_sentences.life(storage),
            )
        )
    left_out = every[_BARS:]
    return Lives(tuple(bars), len(shown) * ROW, len(left_out), sum(storage.bytes for _, storage in left_out))


def _moment_text(report: MemoryReport, moment: LiveBytes) -> str:
    phase = "forward" if moment.tick <= report.backward_began else "backward"
    place = "" if moment.place is None else f", {short(report.places[moment.place])}"
    parts = [f"{size(getattr(moment, sort))} {label}" for sort, label in _SORTS if getattr(moment, sort)]
    return f"{phase.capitalize()}{place}: {', '.join(parts) or 'nothing of this step'}."


def _steps(
    report: MemoryReport, moments: tuple[LiveBytes, ...], values: list[int], top: int
) -> list[tuple[float, float]]:
    """Return the corners of a step line: a value holds until the next moment."""
    points: list[tuple[float, float]] = []
    for moment, value in zip(moments, values, strict=True):
        x, y = _x(report, moment.tick), _y(value, top)
        if points:
            points.append((x, points[-1][1]))
        points.append((x, y))
    points.append((float(WIDTH - RIGHT), points[-1][1]))
    return points


def _x(report: MemoryReport, tick: int) -> float:
    first = report.timeline[0].tick
    span = max(report.ended - first, 1)
    # Clamped, because a save may begin before the first shown tick and end after the last.
    return LEFT + (WIDTH - LEFT - RIGHT) * (min(max(tick, first), report.ended) - first) / span


def _y(count: int, top: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * count / top


def _rounded(count: int) -> int:
    """Return the next number of bytes whose quarters have short labels."""
    unit = 1
    while count >= 1024 * unit:
        unit *= 1024
    # Multiples of four, so that each quarter is a whole number of units.
    for step in (4, 8, 12, 16, 20, 24, 32, 40, 48, 60, 80, 100, 120, 160, 200, 240, 320, 400, 480, 640, 800):
        if count <= step * unit:
            return step * unit
    return 1024 * unit
