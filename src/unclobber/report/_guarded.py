"""The work of guard, in lines for a person."""

from __future__ import annotations

from ..model import Finding, Report, Save
from ..model.text import listing, plural, size
from ._cells import indented
from .story import offending_write, place

_MOST_PLACES = 5


def guard_lines(report: Report, columns: int = 80) -> list[str]:
    """Return one paragraph on guard's work, one per repaired place, and one that counts the places left out.

    The first says how many values were restored for backward and how much memory was kept. Places follow
    by the number of their values, largest first.

    Example:
        >>> guard_lines(Report("clean"))
        ['guard: nothing had to be restored, nothing was kept']
    """
    repaired = [finding for finding in report.findings if finding.repaired]
    repaired.sort(key=lambda finding: -finding.times)
    lines = [_restored(finding) for finding in repaired[:_MOST_PLACES]]
    if more := len(repaired) - len(lines):
        lines.append(f"and {plural(more, 'more place')}: --format json names them all")
    return [indented(_total(report), columns, 4), *(indented(line, columns, 6, first=2) for line in lines)]


def _total(report: Report) -> str:
    """Return the line on all places together."""
    of_backward = [finding for finding in report.findings if finding.entry.stage == "backward"]
    overwritten = [finding for finding in of_backward if not _is_cast_again(finding)]
    cast = sum(finding.times for finding in of_backward if _is_cast_again(finding))
    places = sum(finding.repaired for finding in overwritten)
    most = size(report.totals.kept_bytes) if report.totals.kept_bytes else ""
    kept = f", {most} kept at peak" if most else ", nothing kept"
    if not overwritten:
        restored = "nothing had to be restored"
        kept = f" ({most} kept in case)" if most else ", nothing was kept"
    elif places < len(overwritten):
        # The ledger counts both kinds of conflicts together, so the restored ones among them aren't known.
        restored = f"overwritten values restored at {places} of {plural(len(overwritten), 'place')}"
    else:
        times = plural(max(report.totals.conflicts - cast, places), "overwritten value")
        restored = f"{times} restored ({plural(places, 'place')})"
    return f"guard: {restored}{kept}"


def _restored(finding: Finding) -> str:
    """Return a line on one repaired place: the write, the tensor, its save and the number of times."""
    saved, write = finding.saved, offending_write(finding)
    times = f"restored {plural(finding.times, 'time')}"
    if saved is None:
        return f"{place(None if write is None else write.site)} overwrites a gradient: {times}"
    saves = (saved, *finding.also)
    if finding.also:
        times = f"{plural(finding.times, 'value')} restored"
    saved_in = "saved"
    if _is_cast_again(finding):
        times, saved_in = f"cast again {plural(finding.times, 'time')}", "read"
    what = listing([_tensor(save) for save in saves], limit=4)
    where = listing(list(dict.fromkeys(place(save.site) for save in saves)), limit=4)
    if write is None:
        return f"{what} of {where}: {times}"
    return f"{place(write.site)} overwrites {what}, {saved_in} in {where}: {times}"


def _is_cast_again(finding: Finding) -> bool:
    # Guard has no value to restore where autocast keeps an old copy: it empties the cache.
    return finding.code == "UC106"


def _tensor(save: Save) -> str:
    name = save.name or save.expression
    return f"`{name}` ({size(save.bytes)})" if name else f"a tensor of {size(save.bytes)}"
