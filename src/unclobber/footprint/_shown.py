"""A report that shows itself: as text, on a console of rich's, in a notebook, as JSON and as a page."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from html import escape
from typing import Any

from ..model import VERSION
from ._facts import MemoryReport


class StepMemory(MemoryReport):
    """A report that shows itself, returned by ``unclobber.memory()``.

    ``by_line`` and ``by_module`` say which code keeps how many bytes for backward at the ``peak``; ``kept``
    names each kept tensor with its reason, ``timeline`` has the live bytes over forward and backward. Ticks
    count the step's operations: the first one of forward is 1.
    """

    __slots__ = ()
    __module__ = "unclobber.footprint"  # where a user can import it from

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types, as ``unclobber memory --format json`` writes it.

        ``schema`` counts changes of its shape.
        """
        data = dataclasses.asdict(self)
        for candidate in data["candidates"]:
            del candidate["keys"]  # bytecode positions: of use to this process alone
        for change in data["changes"]:
            del change["edits"]  # candidates not yet run; --apply shows the one that is proved
        head = {"schema": 2, "unclobber": VERSION, "torch": data.pop("torch_version")}
        by_line = [
            {"path": path or None, "line": line or None, "bytes": count}
            for (path, line), count in self.bytes_by_line.items()
        ]
        return {**head, **data, "bytes_by_line": by_line}

    def shown(self, how: str, width: int = 80) -> str:
        """Return the report as ``text`` of this width, as ``json`` or as a page of ``html``."""
        if how == "json":
            return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)
        if how == "html":
            from ._html import to_html

            return to_html(self)
        from ._text import to_text

        return to_text(self, width)

    def __str__(self) -> str:
        return self.shown("text")

    def __repr__(self) -> str:
        """Return a table of about ten lines: the peak, the lines that keep most, the best changes."""
        from ._text import to_table

        return to_table(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        yield Text(self.shown("text", options.max_width), no_wrap=True)

    def _repr_html_(self) -> str:
        """Return the page of ``--format html`` in a frame of its own, for notebooks."""
        page = escape(self.shown("html"), quote=True)
        style = "width:100%;height:640px;border:0"
        return f'<iframe srcdoc="{page}" style="{style}" title="Memory of one step"></iframe>'
