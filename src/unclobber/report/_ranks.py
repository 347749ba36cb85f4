"""Remarks on a run as a whole: the ends of its ranks and processes, and what is suppressed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from ..model import ProcessEnd, RankEnd, Report, SuppressedBy
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
    stopped = [end.rank for end in report.ranks if _is_stopped(end)]
    alike: dict[str, list[int]] = {}  # 10,000 ranks that are ended by SIGTERM are one line
    for end in report.ranks:
        alike.setdefault(_remark(end, bool(stopped)), []).append(end.rank)
    by = on_ranks(stopped).removeprefix("on ")
    said = [
        remark.format(on_ranks(ranks).removeprefix("on "), *_FORMS[len(ranks) > 1], by=by)
        for remark, ranks in alike.items()
    ]
    said += map(_of_process, report.processes)
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


def _remark(end: RankEnd, stopped: bool) -> str:
    """Return a remark on ranks that did not end normally, with fields for them; empty if they did.

    Args:
        stopped: Whether a finding stopped a rank, for which this one may have waited.
    """
    if end.state == "failed":
        why = ", perhaps because a finding stopped {by}" if stopped else ""
        own = "" if stopped else "for reasons of {3} own "
        return f"{{0}} failed {own}(exit code {end.exit_code}){why}"
    return _REMARKS.get(end.state, "")


_FORMS = ("was", "it", "its"), ("were", "they", "their")  # of one rank, and of several
_REMARKS = {
    "running": "{0} had not ended: what {2} had found until then is here",
    "died": "{0} died without a report: what {2} had found until then is here",
    "absent": "{0} left no record: {2} {1} not watched, or had not begun",
    "terminated": "{0} {1} ended by SIGTERM",
}
"""Remarks by the state of a rank."""


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
