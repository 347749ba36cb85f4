"""What a mode got wrong in a script, and the counts of many scripts as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

About = Literal["verdict", "values", "sentence", "findings", "lines", "rest"]
_ABOUT: tuple[About, ...] = ("verdict", "values", "sentence", "findings", "lines", "rest")


@dataclass(frozen=True)
class Fault:
    """One thing that a mode got wrong; ``oracle`` is the mode where the two oracles disagree."""

    mode: str
    about: About
    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.mode}, {self.about}: {self.kind}\n{self.detail}"


@dataclass
class Judgement:
    """All faults of one script, and what was counted on the way."""

    faults: list[Fault] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def blame(self, mode: str, about: About, kind: str, detail: object = "") -> None:
        self.faults.append(Fault(mode, about, kind, str(detail)))

    def tally(self) -> Counter[str]:
        """The counts, and the modes with something wrong about each thing."""
        return self.counts + Counter({f"{fault.mode} wrong {fault.about}" for fault in self.faults})


def tally_table(counts: Mapping[str, int]) -> str:
    """What the scripts were like, and a row for each mode: in how many scripts what was wrong.

    Example:
        >>> print(tally_table({"scripts": 2, "watch runs": 2, "watch findings": 3, "watch wrong lines": 1}))
        2 scripts
        mode           runs  findings  wrong: verdict  values  sentence  findings  lines  rest
        watch             2         3               0       0         0         0      1     0
    """
    modes = [name.removesuffix(" runs") for name in counts if name.endswith(" runs")]
    modes += ["oracle"] if any(name.startswith("oracle wrong") for name in counts) else []
    described = {f"{mode} {what}" for mode in modes for what in ("runs", "findings", *_wrong())}
    lines = [f"{count:,} {name}" for name, count in counts.items() if count and name not in described]
    heads = ["runs", "findings", "wrong: verdict", *_ABOUT[1:]]
    widths = [max(len(head) + 2, 9 if n < 2 else 0) for n, head in enumerate(heads)]
    heads_line = "".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True))
    lines.append(f"{'mode':10}{heads_line}")
    for mode in modes:
        cells = [counts.get(f"{mode} {what}", 0) for what in ("runs", "findings", *_wrong())]
        row = "".join(f"{cell:{width},}" for cell, width in zip(cells, widths, strict=True))
        lines.append(f"{mode:10}{row}")
    return "\n".join(lines)


def _wrong() -> tuple[str, ...]:
    return tuple(f"wrong {about}" for about in _ABOUT)
