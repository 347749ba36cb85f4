"""A test's failure as pytest shows it: the explanation, then the offending line for editors to jump to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

# Private, because pytest has no public class for a failure's text that xdist sends over whole, with the line
# that the short summary shows.
from _pytest._code.code import ReprEntry, ReprExceptionInfo, ReprFileLocation, ReprTraceback
from _pytest._io import TerminalWriter
from _pytest.pathlib import bestrelpath

from ..model import Report
from ..repair import with_candidates
from ..report import options_for, text_of

if TYPE_CHECKING:
    import pytest

    from ..model import Finding


class PytestStory(ReprExceptionInfo):
    """A failure made of explanations, coloured when written to a terminal with colours."""

    findings: tuple[Finding, ...] = ()

    def toterminal(self, tw: TerminalWriter) -> None:
        """Write the explanations in colour, or their plain lines if the terminal has no colours."""
        if not (tw.hasmarkup and self.findings):
            super().toterminal(tw)
            return
        options = replace(options_for(None), width=tw.fullwidth, colour=True)
        tw.line("\n\n".join(text_of(finding, options) for finding in self.findings))
        for entry in self.reprtraceback.reprentries:
            if isinstance(entry, ReprEntry) and entry.reprfileloc is not None:
                tw.line("")
                entry.reprfileloc.toterminal(tw)
        for name, content, separator in self.sections:
            tw.sep(separator, name)
            tw.line(content)


def add_story(
    report: pytest.TestReport, ending: Finding | None, silent: Sequence[Finding], item: pytest.Item
) -> None:
    """Put the explanations of a failed test into its report.

    That of `ending`, which failed it, replaces the traceback, but for ``--tb=native``, which shows it whole.
    What was silent besides comes after it, or has a section of its own.
    """
    if ending is not None and item.config.getoption("tbstyle", "auto") != "native":
        report.longrepr = _story([ending, *silent], item)
    elif silent:
        report.sections.append(("unclobber", str(_story(silent, item))))


def _story(findings: Sequence[Finding], item: pytest.Item) -> PytestStory:
    """Return a test report's ``longrepr`` for findings, the first of which failed the test.

    Its lines have no colours, because JUnit files, logs and xdist's controller take them as they are.
    """
    findings = with_candidates(Report("refused", tuple(findings))).findings
    first = findings[0]
    site = next(iter(first.blamed), None)
    path, line = (site.path, site.line) if site else (item.location[0], (item.location[1] or 0) + 1)
    # As pytest's own lines: relative to where it was started (`--rootdir` is another folder).
    path = bestrelpath(item.config.invocation_params.dir, Path(path)) if os.path.isabs(path) else path
    crash = ReprFileLocation(path, line, f"{first.code} {first.name}: {first.message}")
    # with `--tb=line`, pytest itself writes the crash line
    if item.config.getoption("tbstyle", "auto") == "line":
        return PytestStory(reprtraceback=ReprTraceback([], None, "value"), reprcrash=crash)
    # A worker of xdist has none: the terminal belongs to the controller.
    terminal = item.config.pluginmanager.get_plugin("terminalreporter")
    width = min(item.config.get_terminal_writer().fullwidth, 120) if terminal else 80
    options = replace(options_for(None), width=width)
    lines = "\n\n".join(text_of(finding, options) for finding in findings).split("\n")
    entry = ReprEntry(lines, None, None, ReprFileLocation(path, line, f"{first.code} {first.name}"), "value")
    shown = PytestStory(reprtraceback=ReprTraceback([entry], None, "value"), reprcrash=crash)
    shown.findings = tuple(findings)
    return shown
