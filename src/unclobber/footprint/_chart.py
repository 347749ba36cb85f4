"""Geometry of the two pictures: live bytes over time, and the lives of what is kept."""

from __future__ import annotations

from itertools import pairwise

from ..model.text import size
from ._facts import KeptStorage, LiveBytes, MemoryReport, short

WIDTH = 760
HEIGHT = 260
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 14, 30

_LAYERS = (
    ("kept", "kept for backward"),
    ("other", "other activations"),
    ("gradients", "gradients of leaves"),
    ("temporaries", "gradients on their way"),
)
"""Attributes of `LiveBytes` from the bottom of the chart to its top, with their labels."""

_BARS = 48  # kept tensors that are drawn; the report says how many are left out


class Chart:
    """The timeline of a report, which must have one: where its ticks and bytes are drawn."""

    def __init__(self, report: MemoryReport) -> None:
        self._report = report
        self._moments = report.timeline
        self._top = _rounded(max(moment.step for moment in self._moments))

    def x(self, tick: int) -> float:
        first, ended = self._moments[0].tick, self._report.ended
        # Clamped, because a save may begin before the first shown tick and end after the last.
        return LEFT + (WIDTH - LEFT - RIGHT) * (min(max(tick, first), ended) - first) / max(ended - first, 1)

    def y(self, count: int) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * count / self._top

    @property
    def grid(self) -> list[int]:
        return [self._top * n // 4 for n in range(5)]  # the bytes at which a horizontal line is drawn

    @property
    def layers(self) -> list[tuple[str, str]]:  # the path of a layer without bytes would show as a line
        return [(sort, label) for sort, label in _LAYERS if any(getattr(m, sort) for m in self._moments)]

    def path(self, sort: str) -> str:  # drawn above the layers below it
        below = [name for name, _ in _LAYERS]
        below = below[: below.index(sort)]
        floor = [sum(getattr(moment, name) for name in below) for moment in self._moments]
        ceiling = [low + getattr(moment, sort) for low, moment in zip(floor, self._moments, strict=True)]
        corners = [*self._steps(ceiling), *reversed(self._steps(floor))]
        return f"M{' L'.join(f'{x:.1f},{y:.1f}' for x, y in corners)} Z"

    def _steps(self, values: list[int]) -> list[tuple[float, float]]:  # a value holds until the next moment
        points = [(self.x(m.tick), self.y(value)) for m, value in zip(self._moments, values, strict=True)]
        corners = points[:1]
        for (_, before), (x, y) in pairwise(points):
            corners += [(x, before), (x, y)]
        return [*corners, (float(WIDTH - RIGHT), corners[-1][1])]

    def text(self, moment: LiveBytes) -> str:
        """Return the sentence on one moment."""
        phase = "forward" if moment.tick <= self._report.backward_began else "backward"
        place = "" if moment.place is None else f", {short(self._report.places[moment.place])}"
        parts = [f"{size(getattr(moment, sort))} {label}" for sort, label in _LAYERS if getattr(moment, sort)]
        return f"{phase.capitalize()}{place}: {', '.join(parts) or 'nothing of this step'}."


def lives(report: MemoryReport) -> tuple[list[tuple[int, KeptStorage]], list[KeptStorage]]:
    """Return the largest kept activations in the order of their first save, each with the position of its
    line in ``MemoryReport.by_line``, and the activations that are left out."""
    # A tensor that isn't kept at the peak is charged to no line.
    line = {position: number for number, line in enumerate(report.by_line) for position in line.kept}
    every = [(line.get(n, -1), kept) for n, kept in enumerate(report.kept) if kept.kind == "activation"]
    shown = sorted(every[:_BARS], key=lambda life: (life[1].since, life[1].until))
    return shown, [kept for _, kept in every[_BARS:]]


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
