"""``%unclobber on``: one session over all cells, until ``%unclobber off``.

A graph that one cell builds is often used by another one, so the session stays open between them. IPython
calls `EveryCell._ran` after a cell and `EveryCell._failed` when a cell raises; ``off`` restores both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..model import Finding, Report
from ..session import Session


@dataclass(eq=False)
class EveryCell:
    """The open session, and how many of its findings were shown. Nothing is installed before `begin`."""

    shell: Any  # the `InteractiveShell`
    session: Session  # the session, not entered yet; it doesn't warn
    show: Callable[[Report], None]  # displays a report below the cell
    fail: Callable[[Finding, BaseException], BaseException]  # returns an error with a one-line traceback
    _shown: int = 0
    _before: tuple[tuple[type[BaseException], ...], Any] = ((), None)

    def begin(self) -> None:
        self.session.__enter__()
        # IPython has no call that returns the handlers, and set_custom_exc replaces them: another extension's
        # must come back.
        self._before = self.shell.custom_exceptions, getattr(self.shell, "CustomTB", None)
        self.shell.set_custom_exc((Exception,), self._failed)
        self.shell.events.register("post_run_cell", self._ran)

    def end(self) -> None:
        self.shell.events.unregister("post_run_cell", self._ran)
        self.shell.custom_exceptions, handler = self._before
        if handler is not None:
            self.shell.CustomTB = handler
        self.session.__exit__(None, None, None)

    def _ran(self, result: Any) -> None:
        self._show_new()

    def _show_new(self, ending: Finding | None = None) -> None:
        """Show the findings since the last call, and `ending` if it is not among them."""
        findings = self.session.split_suppressed()[0]
        new, self._shown = findings[self._shown :], len(findings)
        # A finding that recurs is not new to the session, but the cell that failed with it must show it.
        if ending is not None and ending not in new:
            new = (*new, ending)
        if new:
            self.show(replace(self.session.report(), findings=new))

    def _failed(self, shell: Any, kind: Any, error: BaseException, trace: Any, tb_offset: Any = None) -> None:
        """Show the explanation in place of the traceback if a cell's error is a finding."""
        finding = self.session.finding_for(error)
        if finding is not None:
            self._show_new(finding)
            error = self.fail(finding, error)
            shell.showtraceback((type(error), error, trace), tb_offset=tb_offset)
        # Handlers that another extension set before `on` still get their errors.
        elif self._before[0] and issubclass(kind, self._before[0]):
            self._before[1](kind, error, trace, tb_offset=tb_offset)
        else:
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
