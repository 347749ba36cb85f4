"""How the ranks of a distributed run stood, in words."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import RankEnd, Report
from . import _words as words


def on_ranks(ranks: Sequence[int]) -> str:
    """Which ranks found something.

    Example:
        >>> on_ranks([1]), on_ranks([0, 1]), on_ranks([0, 1, 2, 5])
        ('on rank 1', 'on ranks 0 and 1', 'on ranks 0 to 2 and 5')
    """
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    # Two neighbours are a list, three a range.
    parts = [
        part
        for run in runs
        for part in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else [str(rank) for rank in run])
    ]
    return f"on rank{'s' if len(ranks) > 1 else ''} {words.listing(parts)}"


def remarks(report: Report) -> list[str]:
    """What is to be said of the run as a whole: its notices, and ranks that did not end as the others."""
    return [*report.notices, *(text for end in report.ranks if (text := _remark(end)))]


def _remark(end: RankEnd) -> str:
    if end.state == "running":
        return f"rank {end.rank} had not ended: what it had found until then is here"
    if end.state == "died":
        return f"rank {end.rank} died without a report: what it had found until then is here"
    if end.state == "absent":
        return f"rank {end.rank} left no record: it was not watched, or had not begun"
    if end.state == "terminated":
        return f"rank {end.rank} was ended by SIGTERM"
    if end.state == "failed":
        return f"rank {end.rank} failed for reasons of its own (exit code {end.exit_code})"
    return ""
