"""A report that shows itself: as text, on a console of rich's, in a notebook."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from . import html, json, text
from ._facts import MemoryReport


class StepMemory(MemoryReport):
    """A report that shows itself, returned by ``unclobber.memory()``.

    ``by_line`` and ``by_module`` say which code keeps how many bytes for backward at the ``peak``; ``kept``
    names each kept tensor with its reason, ``timeline`` has the live bytes over forward and backward.
    """

    __slots__ = ()
    __module__ = "unclobber.footprint"  # where a user can import it from

    @classmethod
    def of(cls, report: MemoryReport) -> StepMemory:
        """Return a report's facts as an object that shows itself."""
        return cls(**{field.name: getattr(report, field.name) for field in dataclasses.fields(report)})

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types, as ``unclobber memory --format json`` writes it."""
        return json.to_dict(self)

    def __str__(self) -> str:
        return text.to_text(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        yield Text(text.to_text(self, options.max_width), no_wrap=True)

    def _repr_html_(self) -> str:
        """Return the page of ``--format html`` in a frame of its own, for notebooks."""
        return html.in_a_frame(self)
