"""A program with probes, as text: as it is written, and without its writes in place."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """Lines of a program, and what stands there in its twin that writes nothing in place."""

    text: str
    twin: str | None = None
    silent: bool = False
    """Whether it is a write that torch's version counter does not see."""


@dataclass(frozen=True, slots=True)
class ProbedProgram:
    """What runs before the context is entered, inside it, and after it was left."""

    before: tuple[Line, ...]
    inside: tuple[Line, ...]
    after: tuple[Line, ...] = ()
    outer: str | None = None
    """A context of the program's round ours."""

    @property
    def silent(self) -> bool:
        """Whether it writes what torch does not see, as what the program's own hooks have kept."""
        return any(line.silent or (self.outer is not None and line.twin is not None) for line in self.inside)

    @property
    def makes_written_views(self) -> bool:
        """Whether it may save a view that was written since, as which it has each result of a subclass.

        torch gives that a new node first: docs/limits.md.
        """
        return any(line.twin is not None for line in self.inside) and "subclass(" in self.text()

    def text(self, *, twin: bool = False) -> str:
        """The source; ``context`` is the one to run it in, and the names of ``_probes`` are there."""

        def of(lines: tuple[Line, ...]) -> str:
            return "\n".join(line.twin if twin and line.twin is not None else line.text for line in lines)

        inside = "with context():\n" + textwrap.indent(of(self.inside), "    ")
        if self.outer is not None:
            inside = f"with {self.outer}:\n" + textwrap.indent(inside, "    ")
        return "\n".join((of(self.before), inside, of(self.after))) + "\n"

    __str__ = text
