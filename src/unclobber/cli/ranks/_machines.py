"""Machines of a run that share no disk: each sends its report through a store, and the first one reports for
all.

``torchrun`` keeps a ``TCPStore`` on the first machine for as long as a process of its own lives there
(torch/distributed/elastic/agent/server/local_elastic_agent.py), and torch.distributed meets in it.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic
from typing import Any

from ...model import Finding, Outcome, RankEnd, Report
from ...model.text import listing, plural
from .._merge import Part, merge

WORST_FIRST: tuple[Outcome, ...] = ("refused", "silent", "script-error", "clean")
_MOST_FINDINGS = 100  # limit of findings, and of notices, that a machine sends: thousands may
_TO_CONNECT = timedelta(seconds=5)


@dataclass(frozen=True)
class Machines:
    """This machine among those of the run."""

    number: int
    count: int
    local_ranks: int  # number of ranks on each machine
    host: str
    port: int
    run: str  # identifier of the run and its restart, the same on all machines

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Machines | None:
        """Return the machines that ``torchrun`` has started; None for one machine, or without its store."""
        if environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            return None
        try:
            numbers = [int(environment[name]) for name in _NUMBERS]
        except (KeyError, ValueError):
            return None
        number, count, local_ranks, port, restart = numbers
        if count < 2:
            return None
        run = f"unclobber/{environment.get('TORCHELASTIC_RUN_ID')}/{restart}"
        return cls(number, count, local_ranks, environment.get("MASTER_ADDR", ""), port, run)

    def meet(self, report: Report, seconds: float) -> Report | None:
        """Return the report of all machines on the first one; None on others whose report has arrived."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available():
            return report
        try:
            store = distributed.TCPStore(self.host, self.port, is_master=False, timeout=_TO_CONNECT)
            if self.number > 0:
                store.set(self._key(self.number), pickle.dumps(_bounded(report)))
                return None if _arrives(store, self._key("reported", self.number), seconds) else report
            return self._of_all(store, report, seconds)
        except Exception:  # the store is gone with its machine: several reports are better than none
            return report

    def _of_all(self, store: Any, own: Report, seconds: float) -> Report:
        """Wait for the other machines' reports, and merge them with this machine's."""
        end = monotonic() + seconds
        reports = {0: own}
        for number in range(1, self.count):
            if _arrives(store, self._key(number), max(0.0, end - monotonic())):
                # Whoever can write to the store can run code in torch.distributed's processes already.
                reports[number] = pickle.loads(store.get(self._key(number)))
                store.set(self._key("reported", number), b"")
        return merge_machines(reports, range(self.count), self.local_ranks)

    def _key(self, *parts: str | int) -> str:
        return "/".join([self.run, *map(str, parts)])


_NUMBERS = ("GROUP_RANK", "GROUP_WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")


def _arrives(store: Any, key: str, seconds: float) -> bool:
    with contextlib.suppress(Exception):  # torch raises DistStoreError since 2.3, and RuntimeError before
        store.wait([key], timedelta(seconds=seconds) if seconds else timedelta(milliseconds=1))
        return True
    return False


def _bounded(report: Report) -> Report:
    """Return a report with a limited number of findings, the first of each code among them, and notices."""
    where = listing([str(end.rank) for end in report.ranks])
    missing = {"more finding": len(report.findings), "more notice": len(report.notices)}
    left_out = {noun: count - _MOST_FINDINGS for noun, count in missing.items() if count > _MOST_FINDINGS}
    if not left_out:
        return report
    firsts = {finding.code: finding for finding in reversed(report.findings)}.values()
    findings = sorted(report.findings, key=lambda finding: finding not in firsts)
    notices = [f"left out: {plural(count, noun)} of the ranks {where}" for noun, count in left_out.items()]
    return replace(
        report,
        findings=tuple(findings[:_MOST_FINDINGS]),
        notices=(*report.notices[:_MOST_FINDINGS], *notices),
    )


def merge_machines(reports: Mapping[int, Report], machines: Sequence[int], local_ranks: int) -> Report:
    """Return one report of all machines; a machine without a report has only absent ranks."""
    present = [reports[number] for number in machines if number in reports]
    outcomes = {report.outcome for report in present}
    ends: list[RankEnd] = []
    for number in machines:
        first = number * local_ranks
        absent = (RankEnd(rank, "absent") for rank in range(first, first + local_ranks))
        ends += reports[number].ranks if number in reports else absent
    base = replace(
        present[0],
        outcome=next((outcome for outcome in WORST_FIRST if outcome in outcomes), "clean"),
        exit_code=next((report.exit_code for report in present if report.exit_code), 0),
        ranks=tuple(ends),
    )
    return _bounded(merge(base, [part for report in present for part in _parts(report)], "ranks"))


def _parts(report: Report) -> Iterator[Part]:  # the first has all that is counted
    for nth, end in enumerate(report.ranks):
        own = (_of_rank(finding, end.rank) for finding in report.findings if end.rank in finding.ranks)
        yield Part(end.rank, tuple(own), report if nth == 0 else None)


def _of_rank(finding: Finding, rank: int) -> Finding:
    return finding if rank == finding.ranks[0] else replace(finding, times=0)
