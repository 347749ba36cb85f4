"""The reporting process: its children's records merged into its report."""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, cast

from ...model import ProcessEnd, Report
from .._merge import Part, merge, merge_key
from .._records import Folder, ProcessRecord
from .._suppression import RunSuppression
from ._child import ProcessIdentity
from ._follow import follow, unfollow
from ._settings import Settings

_OWN = "MainProcess"


class Children:
    """The processes that this one starts, and all that those start.

    Args:
        suppression: The suppression of the run, with its settings.
        program: The program's words.
        text_on_stderr: Whether the report is text among the program's messages on stderr.
    """

    def __init__(
        self, suppression: RunSuppression, program: tuple[str, ...], *, text_on_stderr: bool
    ) -> None:
        """Choose the run's directory and the settings for children; nothing is followed before the context
        is entered."""
        # A random part, because a process id alone may be taken again while an earlier run's child still
        # lives.
        name = f"unclobber-{os.getpid()}-{secrets.token_hex(4)}"
        self._folder = Folder(os.path.join(tempfile.gettempdir(), name))
        self._settings = Settings(
            folder=self._folder.path,
            root=os.getpid(),
            command=program,
            text_on_stderr=text_on_stderr,
            suppression=pickle.dumps(suppression),
        )

    def __enter__(self) -> Children:
        follow(self._settings)
        return self

    def __exit__(self, *error: object) -> None:
        unfollow()

    def explain(self, error: BaseException) -> bool:
        """Return whether an exception of this process comes from a child's finding.

        It is the exception that ended a pool's task, or torch's for a child that a finding ended.
        """
        children = self._read()
        process = getattr(error, "error_pid", None)  # of torch.multiprocessing.ProcessException
        if any(
            child.pid == process and record.ending and record.ending.refused for child, record in children
        ):
            return True
        if not children:
            return False
        from ...session import Session  # here, because it imports torch

        cause = Session.finding_of(error)
        reported = (merge_key(finding) for _, record in children for finding in record.findings)
        return cause is not None and merge_key(cause) in reported

    def gather(self, own: Report, *, failed: bool) -> Report:
        """Return this process's report merged with its children's records, and delete the records."""
        children = self._read()
        # Removed at once, because a child that ends later finds that the run is over.
        self._folder.remove()
        if not children:
            return own
        parts = [Part(_OWN, own.findings, own)]
        parts += [Part(child.name, record.findings, record.report) for child, record in children]
        merged = merge(own, parts, "processes")
        ends = tuple(_end(child, record) for child, record in children)
        return replace(merged, processes=ends).judged(failed=failed)

    def _read(self) -> Sequence[tuple[ProcessIdentity, ProcessRecord]]:
        with contextlib.suppress(FileNotFoundError):  # no child has made the directory
            everyone = [(self._folder.identity(n), self._folder.read(n)) for n in self._folder.numbers()]
            return [(child, record) for child, record in everyone if child is not None]
        return ()


def _end(child: ProcessIdentity, record: ProcessRecord) -> ProcessEnd:
    # A child is never absent, because it is known by its record, and no SIGTERM is followed in it.
    state = cast("Literal['ended', 'failed', 'running', 'died']", record.end)
    return ProcessEnd(
        child.name, child.pid, state, record.exit_code, record.outcome(failed=False), child.daemon
    )
