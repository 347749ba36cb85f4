"""Remarks on a run as a whole: the ends of its ranks and processes, and what is suppressed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from ..model import ProcessEnd, Report, SuppressedBy
from . import _words as words
from ._cells import indented


def on_ranks(ranks: Sequence[int]) -> str:
    """Return the ranks that found something, in words.

    Example:
        >>> on_ranks([1]), on_ranks([0, 1]), on_ranks([0, 1, 2, 5])
        ('on rank 1', 'on ranks 0 and 1', 'on ranks 0 to 2 and 5')
    """
    parts: list[str] = []
    # Neighbours are as far from their positions. Two of them are a list, three a range.
    for _, run in groupby(enumerate(ranks), key=lambda place: place[1] - place[0]):
        first, *others = (str(rank) for _, rank in run)
        parts += [f"{first} to {others[-1]}"] if len(others) > 1 else [first, *others]
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
    """Return the remarks on a run: its notices, and one on all ranks that ended in the same way."""
    # Other ranks that wait for a stopped one then fail, or are ended.
    stopped = [
        end.rank
        for end in report.ranks
        if end.state == "ended" and end.outcome == "refused" and end.exit_code
    ]
    alike: dict[tuple[str, int | None], list[int]] = {}  # 10,000 ranks that are ended by SIGTERM are one line
    for end in report.ranks:
        code = end.exit_code if end.state == "failed" else None
        alike.setdefault((end.state, code), []).append(end.rank)
    said = [_of_ranks(state, code, ranks, stopped) for (state, code), ranks in alike.items()]
    said += map(_of_process, report.processes)
    return [*report.notices, *filter(None, [*said, _suppressed_line(report)])]


def _of_ranks(state: str, code: int | None, ranks: Sequence[int], stopped: Sequence[int]) -> str:
    """Return a remark on ranks that did not end normally, all in one state; empty if they did.

    Args:
        code: The exit code of ranks that failed.
        stopped: The ranks that a finding stopped, for which these may have waited.
    """
    names = on_ranks(ranks).removeprefix("on ")
    was, they, their = ("were", "they", "their") if len(ranks) > 1 else ("was", "it", "its")
    if state == "failed":
        if stopped:
            by = on_ranks(stopped).removeprefix("on ")
            return f"{names} failed (exit code {code}), perhaps because a finding stopped {by}"
        return f"{names} failed for reasons of {their} own (exit code {code})"
    ending = {
        "running": f"had not ended: what {they} had found until then is here",
        "died": f"died without a report: what {they} had found until then is here",
        "absent": f"left no record: {they} {was} not watched, or had not begun",
        "terminated": f"{was} ended by SIGTERM",
    }.get(state)
    return f"{names} {ending}" if ending else ""


def _of_process(end: ProcessEnd) -> str:
    """Return a remark on a process that did not end by itself, but for daemons, which all end so."""
    if end.state == "running" and not end.daemon:
        return f"process {end.name} had not ended: what it had found until then is here"
    if end.state == "died" and not end.daemon:
        return f"process {end.name} was killed or left by os._exit: what it had found until then is here"
    if end.state == "failed":
        return f"process {end.name} failed for reasons of its own (exit code {end.exit_code})"
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
