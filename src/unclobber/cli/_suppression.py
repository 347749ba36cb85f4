"""Suppression of findings in one run: by its options, its project's settings and a baseline."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..model import Finding, Report, Suppressed
from ..model.text import plural
from ..settings import Baseline, IgnoreComment, ProjectSettings, Suppression, shown_path
from ._errors import ReportError
from ._output import OutputFile
from ._program import ProgramEnd

if TYPE_CHECKING:
    from ..session import Session


class RunSuppression(NamedTuple):
    """The settings of a run's suppression, which child processes receive by pickle."""

    rules: ProjectSettings
    baseline: str | None = None  # the file of known findings
    written: OutputFile | None = None  # the file for a new baseline

    def suppression(self) -> Suppression:
        return Suppression(self.rules, baseline=self._known(), all_known=self.written is not None)

    def session(self, program: tuple[str, ...]) -> Session:
        """Return the session of a process of this run, which is not entered yet.

        Args:
            program: The words of the run's program.
        """
        from ..session import Session

        # The report at the end has its findings, so they warn of nothing.
        return Session.by_settings(self.rules, command=program, warn=False, suppression=self.suppression())

    def without_known(self, report: Report, stopped_by: Collection[Finding], *, failed: bool) -> Report:
        """Return one process's report with the findings of the baseline suppressed."""
        if self.baseline is None and self.written is None:
            return report
        could_be = [f for f in report.findings if f.is_silent and f not in stopped_by]
        baseline = self._known()
        if self.written is None and baseline is not None:
            could_be = baseline.split(could_be)[1]
        # By identity, because two equal findings of one place may be split: only as many as the baseline
        # counts are known.
        known = {id(finding) for finding in could_be}
        reported = tuple(finding for finding in report.findings if id(finding) not in known)
        suppressed = (*report.suppressed, *(Suppressed(finding, "baseline") for finding in could_be))
        return replace(report, findings=reported, suppressed=suppressed).judged(failed=failed)

    def finished(self, report: Report, files: Iterable[str], ending: ProgramEnd) -> Report:
        """Return the report of all processes with notices on unused comments and baseline entries. Write a
        new baseline if one was requested.

        Args:
            ending: How the program ended. After a failure no comment is called unused.

        Raises:
            ReportError: The baseline can't be written.
        """
        notices = list(report.notices)
        in_baseline = [item.finding for item in report.suppressed if item.by == "baseline"]
        if not (ending.failed or ending.refused):
            notices += IgnoreComment.unused(
                files, (*report.findings, *(item.finding for item in report.suppressed))
            )
            baseline = self._known()
            if self.written is None and baseline is not None:
                notices += idle_entries(baseline.split(in_baseline)[2], " in this run")
        if self.written is not None:
            notices.append(write_baseline(in_baseline, self.written, exit_code=ending.exit_code))
            if left := sum(not f.is_silent and not f.repaired for f in report.findings):
                count = plural(left, "finding")
                notices.append(f"{count} left out of it: what torch refuses can't be suppressed")
        return replace(report, notices=tuple(notices))

    def _known(self) -> Baseline | None:
        return None if self.baseline is None else Baseline.read(self.baseline)


def idle_entries(number: int, where: str = "") -> list[str]:
    return [f"{plural(number, 'entry', 'entries')} of the baseline met no finding{where}"] if number else []


def write_baseline(findings: Sequence[Finding], file: OutputFile, *, exit_code: int = 0) -> str:
    """Write a new baseline; return a notice on it."""
    try:
        file.write(Baseline.of(findings, file.path).text())
    except OSError as error:
        raise ReportError(f"the baseline could not be written: {error}", exit_code=exit_code) from error
    return f"{plural(len(findings), 'finding')} written to {shown_path(file.path)}"
