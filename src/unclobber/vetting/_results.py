"""The result of each way, and of all of them: what a way came to, where, and why."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..model import Finding, Site, shown_name
from ..model.text import listing, plural

Verdict = Literal["fine", "silent", "refused", "not applicable", "crashed", "time limit"]
"""``silent``: torch goes on with gradients that differ from guard's. ``refused``: torch refuses an in-place
operation or a freed graph. ``not applicable``: the way can't be taken, and no in-place operation is the
reason. ``time limit``: it did not end in time, and whether it is a fault is not known."""

FAULTS: tuple[Verdict, ...] = ("silent", "refused", "crashed")


@dataclass(frozen=True, slots=True)
class WayResult:
    """The result of one way."""

    way: str
    """Its name, one of ``unclobber.ways``."""
    verdict: Verdict
    reason: str = ""
    """The reason of a verdict without findings, as one clause; empty if there is nothing to say."""
    findings: tuple[Finding, ...] = ()
    """The explanations of a refusal or of wrong gradients."""
    differing: tuple[str, ...] = ()
    """The names of the parameters whose gradients differ from guard's."""
    seconds: float = 0.0
    """The time that the runs of the way took."""

    @property
    def is_fault(self) -> bool:
        """Return whether the module, or its process, failed in this way."""
        return self.verdict in FAULTS

    @property
    def codes(self) -> str:
        """The codes of the findings, as a list in words."""
        return listing(list(dict.fromkeys(finding.code for finding in self.findings)))

    @property
    def line(self) -> Site | None:
        """The module's own line to look at; None if there is none."""
        return next((site for finding in self.findings if (site := line_of(finding))), None)

    def row(self) -> tuple[str, str, str]:
        """Return the way, its verdict, and the line and code or the reason."""
        place = "" if self.line is None else f"{shown_name(self.line.path)}:{self.line.line}"
        differs = ""
        if self.differing and not self.findings:
            differs = f"{plural(len(self.differing), 'gradient')} not as under guard: {self.differing[0]}"
        return self.way, self.verdict, " ".join(filter(None, (self.codes, place, self.reason or differs)))


@dataclass(frozen=True, slots=True, repr=False)
class Vetting:
    """The results of a module in all ways that were tried.

    Its repr is a table: the ways, what each came to, and the module's line.
    """

    name: str
    """The module: the target of the command, or the name of its class."""
    results: tuple[WayResult, ...]
    problem: str = ""
    """The reason why it could not be built or trained at all; then there are no results."""

    @property
    def faults(self) -> tuple[WayResult, ...]:
        """The results that a test of the module fails for."""
        return tuple(result for result in self.results if result.is_fault)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The explanations of all ways, each once, with a note on the ways that it was seen in."""
        return merged([self])

    def __repr__(self) -> str:
        """Return the table of the ways."""
        return Vetting.table([self])

    @staticmethod
    def table(vettings: Sequence[Vetting]) -> str:
        """Return aligned columns: of one module with lines and reasons, of several one for each."""
        rows: list[tuple[str, ...]]
        if len(vettings) == 1:
            rows = [("way", "verdict", vettings[0].name), *(result.row() for result in vettings[0].results)]
        else:
            ways = next(tuple(result.way for result in v.results) for v in vettings if not v.problem)
            shown = ([f"{r.verdict} {r.codes}".strip() for r in v.results] for v in vettings)
            columns = [column or ["not built"] * len(ways) for column in shown]
            rows = [("way", *(vetting.name for vetting in vettings)), *zip(ways, *columns, strict=True)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows
        )
        return "\n".join(line.rstrip() for line in lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain data; of the findings, the codes and the module's line."""
        return {
            "target": self.name,
            "problem": self.problem or None,
            "ways": [
                {
                    "way": result.way,
                    "verdict": result.verdict,
                    "reason": result.reason or None,
                    "path": result.line and result.line.path,
                    "line": result.line and result.line.line,
                    "codes": list(dict.fromkeys(finding.code for finding in result.findings)),
                    "gradients": list(result.differing),
                    "seconds": round(result.seconds, 3),
                }
                for result in self.results
            ],
        }


def merged(vettings: Sequence[Vetting]) -> tuple[Finding, ...]:
    """Return the findings of several modules, each once, with a note on the ways that it was seen in.

    Two findings of one code that point at one line are one, although the ways read what it wrote elsewhere.
    """
    first: dict[Hashable, Finding] = {}
    seen: dict[Hashable, dict[str, dict[str, None]]] = {}
    for vetting in vettings:
        for result in vetting.results:
            for finding in result.findings:
                key = key_of(finding)
                first.setdefault(key, finding)
                seen.setdefault(key, {}).setdefault(vetting.name, {})[result.way] = None
    return tuple(
        replace(finding, notes=(*finding.notes, *(_seen_in(name, ways) for name, ways in seen[key].items())))
        for key, finding in first.items()
    )


def key_of(finding: Finding) -> Hashable:
    """Return the code and the module's line; the message, too, if that line is not known."""
    site = line_of(finding)
    return finding.code, finding.message if site is None else (site.path, site.line)


def line_of(finding: Finding) -> Site | None:
    """Return the line of the module to look at: of a write, else of what it wrote or saved."""
    # Never the line that needs the tensor: the backward is the way's, not the module's.
    facts = (*finding.overwriting, *finding.writes, finding.saved, finding.made)
    sites = [fact.site for fact in facts if fact is not None and fact.site is not None]
    # Last a line of torch's: the module's author can't change it.
    return min(sites, key=lambda site: site.library, default=None)


def _seen_in(name: str, ways: Collection[str]) -> str:
    return f"seen in {plural(len(ways), 'way')} of training {name}: {listing([*ways], 20)}"
