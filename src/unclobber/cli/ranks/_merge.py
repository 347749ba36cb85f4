"""Merging of several ranks' reports: findings at the same places become one, with its ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from ...model import Finding, Outcome, RankEnd, Report, outcome
from .._merge_keys import joined, joined_suppressed, total
from .._records import ProcessRecord

_WORST_FIRST: tuple[Outcome, ...] = ("refused", "silent", "script-error", "clean")


def merge(records: Sequence[ProcessRecord], *, torch_version: str, command: tuple[str, ...]) -> Report:
    """Return one report of all ranks.

    Totals are added up. The outcome is the worst one; the exit code is that of the lowest rank with another
    than 0, as a launcher exits.
    """
    reports = [record.report for record in records if record.report is not None]
    findings = fold((record.number, record.findings) for record in records)
    hidden = [(record.number, record.report.suppressed) for record in records if record.report]
    outcomes = {rank_outcome for record in records if (rank_outcome := _outcome(record)) is not None}
    return Report(
        outcome=next((candidate for candidate in _WORST_FIRST if candidate in outcomes), "clean"),
        findings=findings,
        totals=total(reports),
        torch_version=torch_version,
        command=command,
        exit_code=next((report.exit_code for report in reports if report.exit_code), 0),
        notices=tuple(dict.fromkeys(notice for report in reports for notice in report.notices)),
        processes=tuple(end for report in reports for end in report.processes),
        ranks=tuple(_end(record) for record in records),
        suppressed=tuple(
            replace(item, finding=replace(item.finding, ranks=tuple(sorted(ranks))))
            for item, ranks in joined_suppressed(hidden, findings)
        ),
    )


def fold(by_rank: Iterable[tuple[int, Iterable[Finding]]]) -> tuple[Finding, ...]:
    """Return the findings of all ranks, merged by their places, each with the ranks that have it.

    The lowest rank's version is kept: tensor sizes, or the backward that needed it, may differ. The
    processes that a rank has started are those of all ranks.
    """
    folded = []
    for finding, ranks, same in joined(by_rank):
        processes = tuple(dict.fromkeys(name for version in same for name in version.processes))
        times = sum(version.times for version in same)
        folded.append(replace(finding, ranks=tuple(sorted(ranks)), processes=processes, times=times))
    return tuple(folded)


def _outcome(record: ProcessRecord) -> Outcome | None:
    """Return a rank's outcome; None if it left no report and no finding."""
    if record.report is not None:
        return record.report.outcome
    known = outcome(record.findings, failed=record.state == "died")
    return None if known == "clean" else known


def _end(record: ProcessRecord) -> RankEnd:
    """Return how a rank ended, for the report."""
    code = None if record.report is None else record.report.exit_code
    ending = record.ending
    if ending is None:
        return RankEnd(record.number, record.state, code, _outcome(record))
    how: Literal["terminated", "failed", "ended"]
    how = "terminated" if ending.terminated else "failed" if ending.failed else "ended"
    return RankEnd(record.number, how, code, _outcome(record))
