"""The program's own process: what its children have left, put into its report."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ...judge import outcome
from ...model import ProcessEnd, Report
from ...session.session import Session, finding_of
from .._places import joined, joined_suppressed, places, total
from .._records import Folder, ProcessRecord
from .._suppression import RunSuppression
from ._child import Who
from ._follow import follow, unfollow
from ._settings import Settings

_OWN = "MainProcess"


class Children:
    """The processes that this one starts, and theirs.

    Args:
        session: The one that is about to watch this process.
        suppression: What the run suppresses.
        told_beside: Whether the report is text beside the program's messages.
    """

    def __init__(self, session: Session, suppression: RunSuppression, *, told_beside: bool) -> None:
        self._session = session
        name = f"unclobber-{os.getpid()}-{secrets.token_hex(4)}"
        self._folder = Folder(os.path.join(tempfile.gettempdir(), name))
        self._settings = Settings(
            folder=self._folder.path,
            root=os.getpid(),
            policy=session.policy,
            strict=session.strict,
            fingerprint=session.fingerprint,
            command=session.command,
            told_beside=told_beside,
            suppression=tuple(suppression),
        )

    def __enter__(self) -> Children:
        follow(self._settings, self._session)
        return self

    def __exit__(self, *error: object) -> None:
        unfollow()

    def explain(self, error: BaseException) -> bool:
        """Whether an exception of this process comes from what a child has found.

        It is the very exception that ended a pool's task, or torch's for a child that a finding ended.
        """
        children = self._read()
        process = getattr(error, "error_pid", None)  # of torch.multiprocessing.ProcessException
        if any(who.pid == process and record.ending and record.ending.refused for who, record in children):
            return True
        found = finding_of(error)
        told = (places(finding) for _, record in children for finding in record.findings)
        return found is not None and places(found) in told

    def gather(self, own: Report, *, failed: bool) -> Report:
        """The report of this process with what its children have left, which is then removed.

        Args:
            own: This process's findings.
            failed: Whether its program failed for reasons of its own.
        """
        children = self._read()
        self._folder.remove()
        if not children:
            return own
        found = [(_OWN, own.findings), *((who.name, record.findings) for who, record in children)]
        findings = tuple(
            replace(finding, processes=names, times=sum(one.times for one in same))
            for finding, names, same in joined(found)
        )
        hidden = [(_OWN, own.suppressed)]
        hidden += [(who.name, record.report.suppressed) for who, record in children if record.report]
        suppressed = tuple(
            replace(one, finding=replace(one.finding, processes=names))
            for one, names in joined_suppressed(hidden, findings)
        )
        reports = [own, *(record.report for _, record in children if record.report is not None)]
        return replace(
            own,
            outcome=outcome(findings, failed=failed),
            findings=findings,
            totals=total(reports),
            notices=tuple(dict.fromkeys(notice for report in reports for notice in report.notices)),
            processes=tuple(_end(who, record) for who, record in children),
            suppressed=suppressed,
        )

    def _read(self) -> Sequence[tuple[Who, ProcessRecord]]:
        """All watched children with their records, in the order in which they began."""
        with contextlib.suppress(FileNotFoundError):  # there was none
            everyone = [(self._folder.who(n), self._folder.read(n)) for n in self._folder.numbers()]
            return [(who, record) for who, record in everyone if who is not None]
        return ()


def _end(who: Who, record: ProcessRecord) -> ProcessEnd:
    report, ending = record.report, record.ending
    state: Literal["ended", "failed", "running", "died"] = "running" if record.state == "running" else "died"
    if ending is not None:
        state = "failed" if ending.failed else "ended"
    found = outcome(record.findings, failed=False) if report is None else report.outcome
    known = None if report is None and found == "clean" else found
    return ProcessEnd(
        who.name, who.pid, state, None if report is None else report.exit_code, known, who.daemon
    )
