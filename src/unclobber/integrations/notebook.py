"""IPython and Jupyter: ``%load_ext unclobber``, then ``%%unclobber`` on top of a cell.

::

    %%unclobber [--guard] [--strict] [--fingerprint[=RATE]]
    loss = model(x).sum()
    loss.backward()

``%unclobber [options] statement`` watches one line, and ``%unclobber`` alone shows the last
report again. ``%unclobber on [options]`` watches every cell from then on, until ``%unclobber off``.
``%%unclobber_memory [--try] [--fake]`` shows which line of a cell keeps how many bytes for backward.
Findings are displayed with the cells' own source; a cell that fails with one shows the explanation
in place of torch's traceback. Graphs are watched from the cell that builds them: put ``%%unclobber`` there,
not only on the cell with the backward. ``await`` at the top level of such a cell isn't supported.

Neither this module nor IPython is imported until the extension is loaded.
"""

from __future__ import annotations

import ast
import os
import weakref
from dataclasses import replace
from difflib import get_close_matches
from types import TracebackType
from typing import Any

from IPython.core.error import UsageError
from IPython.display import display

from ..footprint import StepMemory, memory
from ..model import PACKAGE, Finding, Report, UnclobberError
from ..repair import with_candidates
from ..report import ReportDisplay, error_of, line_of
from ..session import Session
from ._answers import rate

Shell = Any  # an `InteractiveShell`. Its methods have no types, or those of their decorators.

_HERE = PACKAGE + os.sep
_USAGE = "%%unclobber [--guard] [--strict] [--fingerprint[=RATE]]"
_SWITCH = "%unclobber on [--guard] [--strict] [--fingerprint[=RATE]], or %unclobber off"
_SHOWN = (Finding, Report, StepMemory)  # the types that display themselves

# Weak, because a test or an embedding program makes a shell and drops it.
_magics: weakref.WeakKeyDictionary[Shell, Magics] = weakref.WeakKeyDictionary()
"""The magics of each shell that has loaded the extension."""


def parse(line: str) -> tuple[dict[str, Any], str]:
    """Return the arguments that the options in front of a line set, and the text after them.

    Raises:
        UsageError: There is no such option, or its value is wrong.
    Example:
        >>> parse("--guard step(x) --strict")
        ({'guard': True}, 'step(x) --strict')
    """
    chosen: dict[str, Any] = {}
    code = line.strip()
    while code.startswith("--"):
        word, _, code = code.partition(" ")
        code = code.lstrip()
        name, given, value = word.partition("=")
        if word in ("--guard", "--strict", "--no-guard", "--no-strict"):
            switch = word[2:].removeprefix("no-")
            chosen[switch] = word == f"--{switch}"
        elif name == "--fingerprint":
            chosen["fingerprint"] = rate(value, name, UsageError) if given else 1.0
        else:
            raise UsageError(f"there is no option {word}: {_USAGE}")
    return chosen, code


def _session(options: dict[str, Any]) -> Session:  # the working directory's settings decide what is left open
    # The directory's, because a notebook's kernel starts in its folder. Silent writes are displayed below the
    # cell, so they warn of nothing.
    try:
        return Session.by_settings(os.getcwd(), **options, warn=False)
    except UnclobberError as error:
        raise UsageError(str(error)) from None


class Magics:
    """The magic and the last report, for one shell."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.last: Report | None = None
        self._every_cell: EveryCell | None = None

    @staticmethod
    def load(shell: Shell) -> None:
        """Define the magics, and let findings and reports display themselves."""
        magics = _magics[shell] = Magics(shell)
        shell.register_magic_function(magics.run, magic_kind="line_cell", magic_name="unclobber")
        shell.register_magic_function(magics.memory, magic_kind="cell", magic_name="unclobber_memory")
        html, text = (shell.display_formatter.formatters[kind] for kind in ("text/html", "text/plain"))
        for kind in _SHOWN:
            html.for_type(kind, lambda fact: magics.shown(fact)._repr_html_())
            text.for_type(kind, lambda fact, printer, cycle: printer.text(str(magics.shown(fact))))

    @staticmethod
    def unload(shell: Shell) -> None:
        """Take back what :meth:`load` defined, and ``%unclobber on``."""
        magics = _magics.pop(shell, None)
        if magics is not None:
            magics.off()
        for kind, name in (("line", "unclobber"), ("cell", "unclobber"), ("cell", "unclobber_memory")):
            shell.magics_manager.magics[kind].pop(name, None)
        for formats in (shell.display_formatter.formatters[name] for name in ("text/html", "text/plain")):
            for shown in _SHOWN:
                formats.pop(shown, None)

    def run(self, line: str, cell: str | None = None) -> ReportDisplay | StepMemory | None:
        """Explain overwritten saved tensors: %%unclobber [--guard] [--strict] [--fingerprint[=RATE]]

        --guard gives backward the values that were saved; --strict stops at writes that torch doesn't
        see, too; --fingerprint compares the values of saved tensors to find writes that nothing else
        sees. As a line magic it runs one statement, or shows the last report again; `%unclobber on` watches
        every cell from then on, with the same options, until `%unclobber off`.
        """
        if cell is None and line.split()[:1] in (["on"], ["off"]):
            self._switch(*line.split(maxsplit=1))
            return None
        options, code = parse(line)
        if cell is not None and code:
            raise UsageError(f"options only in the first line, not {code!r}: {_USAGE}")
        close = () if cell or code in self.shell.user_ns else get_close_matches(code, ("on", "off"), 1)
        if close:
            raise UsageError(f"there is no %unclobber {code}: did you mean `%unclobber {close[0]}`?")
        if cell is None and not code:
            if self.last is None:
                raise UsageError("nothing has run under %unclobber yet")
            return self.shown(self.last)
        if cell is None:
            compiled = self._compiled(code, f"%unclobber {line}", below_the_magic=False)
        else:
            compiled = self._compiled(cell, f"%%unclobber {line}\n{cell}", below_the_magic=True)
        self._run_cell(options, *compiled)
        return None

    def memory(self, line: str, cell: str) -> None:
        """Say which line of a cell keeps how many bytes for backward: %%unclobber_memory [--try] [--fake]

        The cell runs up to the end of its first backward, on a copy of the notebook's names. --try runs it
        again with each change that could save memory; --fake computes shapes only.
        """
        words = set(line.split())
        if wrong := words - {"--try", "--fake"}:
            raise UsageError(f"there is no option {', '.join(wrong)}: %%unclobber_memory [--try] [--fake]")
        codes = self._compiled(cell, f"%%unclobber_memory {line}\n{cell}", below_the_magic=True)

        def step() -> None:
            names = dict(self.shell.user_ns)
            for code in filter(None, codes):
                exec(code, names)

        try:
            report = memory(step, try_changes="--try" in words, fake="--fake" in words)
        except BaseException as error:
            self._without_own_frames(error)
            raise
        display(report)

    def shown(self, fact: Report | Finding | StepMemory) -> ReportDisplay | StepMemory:
        if isinstance(fact, StepMemory):
            return fact
        report = fact if isinstance(fact, Report) else Report("refused", (fact,))
        return ReportDisplay(with_candidates(report))

    def _compiled(self, body: str, raw: str, *, below_the_magic: bool) -> tuple[Any, Any]:
        """Compile the statements, and the last expression by itself, because its value is to be displayed."""
        shell = self.shell
        source = shell.transform_cell(body)
        if below_the_magic:
            # The shell drops empty lines at a cell's beginning. With them, and one for the magic's line, the
            # numbers of lines are those that the user sees.
            dropped = body[: len(body) - len(body.lstrip())].count("\n")
            source = "\n" * (1 + dropped) + source
        # Not `execution_count`: newer shells have incremented it by now.
        name = shell.compile.cache(source, len(shell.user_ns.get("In", ())) - 1, raw_code=raw)
        tree = shell.transform_ast(shell.compile.ast_parse(source, filename=name))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        statements = shell.compile(tree, name, "exec")
        # Compiled as `single`, so that the value of the last expression reaches the display hook.
        return statements, last and shell.compile(ast.Interactive([last]), name, "single")

    def _switch(self, word: str, line: str = "") -> None:
        """Start or end the session over all cells: ``%unclobber on`` and ``off``."""
        options, code = parse(line)
        if code or (word == "off" and line):
            raise UsageError(f"%unclobber {word}: what is {code or line!r}? {_SWITCH}")
        self.off()
        if word == "on":
            self._every_cell = EveryCell(self, _session(options))

    def off(self) -> None:  # cells with the magic are still watched
        if self._every_cell is not None:
            # Cleared first, so that a failing `end` is not repeated by the next `off`.
            every_cell, self._every_cell = self._every_cell, None
            every_cell.end()

    def _run_cell(self, options: dict[str, Any], statements: Any, last: Any) -> None:
        """Run compiled statements in a session and display its report. Raise a short error for a finding."""
        session = _session(options)
        finding = None
        try:
            with session:
                try:
                    exec(statements, self.shell.user_ns)
                    if last is not None:
                        exec(last, self.shell.user_ns)
                except BaseException as error:
                    finding = session.finding_for(error)
                    raise
        except BaseException as error:
            self._keep(session, finding, failed=True)
            if finding is None:
                self._without_own_frames(error)
                raise
            refusal = self._refusal(finding, error)
            raise refusal from (None if refusal is error else error)
        self._keep(session, None, failed=False)

    def _keep(self, session: Session, finding: Finding | None, *, failed: bool) -> None:
        report = session.report(script_failed=failed)
        if finding is not None and finding not in report.findings:
            report = replace(report, findings=(*report.findings, finding))
        self._show(report)

    def _show(self, report: Report) -> None:
        self.last = report
        if report.findings or report.suppressed or report.notices:
            display(self.shown(report))

    def _refusal(self, finding: Finding, error: BaseException) -> BaseException:
        refusal = error if getattr(error, "finding", None) is finding else error_of(finding)
        line = line_of(finding).removeprefix("SUMMARY: ")
        # IPython calls this method of an exception for its traceback; both frontends and nbconvert show these
        # lines.
        refusal._render_traceback_ = lambda: [f"InplaceError: {line}"]  # type: ignore[attr-defined]
        return refusal  # no later cell runs; the traceback is one line below the explanation

    def _without_own_frames(self, error: BaseException) -> None:
        """Make the traceback of the user's own error start in the user's cell, not in this file."""
        # IPython renders these two by itself, without frames of this file.
        if isinstance(error, SyntaxError | KeyboardInterrupt):
            return
        traceback: TracebackType | None = error.__traceback__
        while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_HERE):
            traceback = traceback.tb_next
        lines = self.shell.InteractiveTB.structured_traceback(type(error), error, traceback, tb_offset=0)
        if hasattr(error, "__dict__") and not hasattr(error, "_render_traceback_"):
            error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]


class EveryCell:
    """``%unclobber on``: one session over all cells, until ``%unclobber off``.

    A graph that one cell builds is often used by another one, so the session stays open between them. IPython
    calls `_ran` after a cell and `_failed` when a cell raises; ``end`` restores both.

    Args:
        magics: The magics of the shell, which display the reports.
        session: The session, not entered yet; it doesn't warn.
    """

    def __init__(self, magics: Magics, session: Session) -> None:
        """Enter the session, and let IPython call this object after each cell and for each error."""
        self.magics = magics
        self.shell = magics.shell
        self.session = session.__enter__()
        self._shown = 0  # number of findings that were shown
        # IPython has no call that returns the handlers, and set_custom_exc replaces them: another extension's
        # must come back.
        self._before: Any = self.shell.custom_exceptions, getattr(self.shell, "CustomTB", None)
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
            self.magics._show(replace(self.session.report(), findings=new))

    def _failed(self, shell: Any, kind: Any, error: BaseException, trace: Any, tb_offset: Any = None) -> None:
        """Show the explanation in place of the traceback if a cell's error is a finding."""
        finding = self.session.finding_for(error)
        if finding is not None:
            self._show_new(finding)
            error = self.magics._refusal(finding, error)
            shell.showtraceback((type(error), error, trace), tb_offset=tb_offset)
        # Handlers that another extension set before `on` still get their errors.
        elif self._before[0] and issubclass(kind, self._before[0]):
            self._before[1](kind, error, trace, tb_offset=tb_offset)
        else:
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
