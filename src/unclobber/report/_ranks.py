"""Remarks on a run as a whole: the ends of its ranks and processes, and what is suppressed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..model import ProcessEnd, RankEnd, Report, SuppressedBy
from . import _words as words
from ._cells import indented


def on_ranks(ranks: Sequence[int]) -> str:
    """Return the ranks that found something, in words.

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


def in_processes(names: Sequence[str]) -> str:
    """Return the processes that found something, in words; empty if only the program's own did.

    Example:
        >>> in_processes(["SpawnProcess-1"]), in_processes(["MainProcess", "loss"])
        ('in process SpawnProcess-1', 'in 2 processes: MainProcess and loss')
    """
    if list(names) in ([], [OWN_PROCESS]):
        return ""
    if len(names) == 1:
        return f"in process {names[0]}"
    return f"in {len(names)} processes: {words.listing(names)}"


OWN_PROCESS = "MainProcess"  # `multiprocessing`'s name of the program's own process


def remarks(report: Report) -> list[str]:
    stopped = [end.rank for end in report.ranks if _is_stopped(end)]
    said = [_remark(end, stopped) for end in report.ranks] + [_of_process(end) for end in report.processes]
    return [*report.notices, *filter(None, [*said, _suppressed_line(report)])]


def _of_process(end: ProcessEnd) -> str:
    """Return a remark on a process that did not end by itself, but for daemons, which all end so."""
    if end.state == "running" and not end.daemon:
        return f"process {end.name} had not ended: what it had found until then is here"
    if end.state == "died" and not end.daemon:
        return f"process {end.name} was killed or left by os._exit: what it had found until then is here"
    if end.state == "failed":
        return f"process {end.name} failed for reasons of its own (exit code {end.exit_code})"
    return ""


def _is_stopped(end: RankEnd) -> bool:  # other ranks that wait for it then fail, or are ended
    return end.state == "ended" and end.outcome == "refused" and bool(end.exit_code)


def _remark(end: RankEnd, stopped: Sequence[int]) -> str:
    """Return a remark on a rank that did not end normally; empty if it did."""
    if end.state == "running":
        return f"rank {end.rank} had not ended: what it had found until then is here"
    if end.state == "died":
        return f"rank {end.rank} died without a report: what it had found until then is here"
    if end.state == "absent":
        return f"rank {end.rank} left no record: it was not watched, or had not begun"
    if end.state == "terminated":
        return f"rank {end.rank} was ended by SIGTERM"
    if end.state == "failed":
        if stopped:  # the rank may have waited for a stopped one
            why = f"perhaps because a finding stopped {on_ranks(stopped).removeprefix('on ')}"
            return f"rank {end.rank} failed (exit code {end.exit_code}), {why}"
        return f"rank {end.rank} failed for reasons of its own (exit code {end.exit_code})"
    return ""


_HOW: dict[SuppressedBy, str] = {
    "comment": "by comment",
    "settings": "by the settings",
    "baseline": "in the baseline",
}


def _suppressed_line(report: Report) -> str:
    """Return a sentence that counts the suppressed findings; empty if there are none.

    Example:
        >>> from unclobber.model import Finding, Suppressed
        >>> one = Suppressed(Finding("UC102", "`d` was overwritten"), "comment")
        >>> _suppressed_line(Report("clean", suppressed=(one, one)))
        '2 findings are suppressed: 2 by comment'
    """
    counts = Counter(suppressed.by for suppressed in report.suppressed)
    count = len(report.suppressed)
    if not count:
        return ""
    each = ", ".join(f"{counts[by]} {how}" for by, how in _HOW.items() if counts[by])
    return f"{words.plural(count, 'finding')} {'is' if count == 1 else 'are'} suppressed: {each}"


def notice_lines(report: Report, columns: int) -> list[str]:
    said = (*report.notices, _suppressed_line(report))
    return [indented(f"unclobber: {notice}", columns, 4) for notice in said if notice]
