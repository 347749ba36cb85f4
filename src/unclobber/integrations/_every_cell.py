"""``%unclobber on``: one session over all cells, until ``%unclobber off``.

A graph that one cell builds is often used by another one, so the session stays open between them. IPython
tells when a cell has run and hands over what a cell raises; both are taken back by ``off``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..model import Finding, Report
from ..session.session import Session

Shell = Any


class EveryCell:
    """The session that is open, and what of it was shown.

    Args:
        shell: The ``InteractiveShell``.
        session: Not entered yet; it doesn't warn.
        show: Displays a report.
        fail: Gives an error whose traceback is one line, for a finding and the error that it came with.
    """

    def __init__(
        self,
        shell: Shell,
        session: Session,
        show: Callable[[Report], None],
        fail: Callable[[Finding, BaseException], BaseException],
    ) -> None:
        self._shell = shell
        self.session = session
        self._show = show
        self._fail = fail
        self._shown = 0
        self._before: tuple[tuple[type[BaseException], ...], Any] = ((), None)

    def begin(self) -> None:
        self.session.__enter__()
        self._before = self._shell.custom_exceptions, getattr(self._shell, "CustomTB", None)
        self._shell.set_custom_exc((Exception,), self._failed)
        self._shell.events.register("post_run_cell", self._ran)

    def end(self) -> None:
        self._shell.events.unregister("post_run_cell", self._ran)
        self._shell.custom_exceptions, handler = self._before
        if handler is not None:
            self._shell.CustomTB = handler
        self.session.__exit__(None, None, None)

    def _ran(self, result: Any) -> None:
        """A cell has run: show what is new."""
        self._show_new()

    def _show_new(self, *also: Finding) -> None:
        findings = self.session.split_suppressed()[0]
        new, self._shown = findings[self._shown :], len(findings)
        if missing := tuple(finding for finding in also if finding not in new):
            new = (*new, *missing)
        if new:
            self._show(replace(self.session.report(), findings=new))

    def _failed(
        self, shell: Shell, kind: Any, error: BaseException, trace: Any, tb_offset: Any = None
    ) -> None:
        """A cell has raised: the story in place of the traceback, where it is one."""
        finding = self.session.finding_for(error)
        if finding is not None:
            self._show_new(finding)
            error = self._fail(finding, error)
            shell.showtraceback((type(error), error, trace), tb_offset=tb_offset)
        elif self._before[0] and issubclass(kind, self._before[0]):
            self._before[1](kind, error, trace, tb_offset=tb_offset)
        else:
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
