"""Compare what each mode says of a script with what is true of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import unclobber
from unclobber.report._text import to_text

from ._facts import Facts, facts
from ._faults import About, Judgement
from ._findings import SILENT, check_finding, lines_of
from ._run import Ending, audited, begins, difference, run, same
from ._script import Script
from ._surroundings import surroundings

Context = Callable[[], AbstractContextManager[Any]]

MODES: dict[str, Context] = {
    "watch": unclobber.watch,
    "strict": lambda: unclobber.watch(strict=True),
    "fingerprint": lambda: unclobber.watch(fingerprint=1.0),
    "guard": unclobber.guard,
}
"""Beside these, ``audit`` is a function and no context."""


def judge(script: Script, **instead: Context) -> Judgement:
    """Run the script in every mode and compare.

    Args:
        script: What to run.
        instead: Other contexts for modes, for tests that the comparison can fail.
    """
    return _Judge(script, MODES | instead).judge()


class _Judge:
    def __init__(self, script: Script, contexts: dict[str, Context]) -> None:
        self.script = script
        self.contexts = contexts
        with unclobber.watch():
            pass  # what the first context installs stays, asleep
        self.before = surroundings()
        self.facts: Facts = facts(script)
        self.judgement = Judgement()

    def judge(self) -> Judgement:
        for kind, detail in self.facts.disagreements():
            self.blame("oracle", "rest", kind, detail)
        self._count()
        watched = self._run("watch")
        self._check_watch(watched)
        self._check_strict(self._run("strict"), watched)
        self._check_fingerprint(self._run("fingerprint"), watched)
        self._check_guard(self._run("guard"))
        self._check_audit(self._run("audit"), watched)
        self.script.forget()
        return self.judgement

    def blame(self, mode: str, about: About, kind: str, detail: object = "") -> None:
        self.judgement.blame(mode, about, kind, detail)

    def _count(self) -> None:
        facts = self.facts
        needs = facts.truth.needs
        self.judgement.counts.update(
            {
                "scripts": 1,
                "of them legal": facts.family != "illegal",
                "overwrite what backward asks for": any(need.changed or need.moved for need in needs),
                "plain: gradients as with copies": facts.right_already,
                "plain: silently other gradients": facts.silently_wrong,
                "plain: refused by the version check": facts.family == "version",
                "plain: refused otherwise": facts.family == "others",
                "copies: gradients": facts.truth.ending.error is None,
            }
        )

    # --- one run ----------------------------------------------------------------------------------

    def _run(self, mode: str) -> Ending:
        ending = audited(self.script) if mode == "audit" else run(self.script, self.contexts[mode])
        self.judgement.counts[f"{mode} runs"] += 1
        self.judgement.counts[f"{mode} findings"] += len(ending.findings)
        now = surroundings()
        if now != self.before:
            self.blame(mode, "rest", "torch is not as before", now)
        self._check_warnings(mode, ending)
        for finding in ending.findings:
            check_finding(mode, finding, self.facts, self.judgement)
            self._check_story(mode, finding)
        return ending

    def _check_warnings(self, mode: str, ending: Ending) -> None:
        """None of ours but of silent writes, and those from watching alone."""
        known = {str(warning.message) for warning in self.facts.plain.warnings}
        for warning in ending.warnings:
            text = str(warning.message)
            if isinstance(warning.message, unclobber.SilentWriteWarning):
                if mode in ("guard", "audit"):
                    self.blame(mode, "rest", "warned", text)
            elif mode in ("guard", "audit") and "unclobber" not in text:
                continue  # they may get further than plain torch does
            elif text not in known:
                self.blame(mode, "rest", "another warning", text)

    def _check_story(self, mode: str, finding: Any) -> None:
        try:
            to_text(finding)
        except Exception as error:
            self.blame(mode, "rest", "no story", repr(error))

    # --- watch, strict, fingerprint ---------------------------------------------------------------

    def _check_watch(self, watched: Ending) -> None:
        """The same error as plain torch's, ours where it is about in-place operations; the same bits; and
        a finding where torch is silent."""
        plain = self.facts.plain
        if (watched.error is None) != (plain.error is None):
            self.blame("watch", "verdict", "another one", f"{plain.error!r}\n{watched.error!r}")
        elif watched.error is not None:
            if watched.sentence != plain.sentence:
                self.blame("watch", "sentence", "another one", f"{plain.sentence}\n{watched.sentence}")
            if not set(watched.lines) & set(plain.lines):
                self.blame("watch", "lines", "raised elsewhere", f"{plain.lines} {watched.lines}")
            if isinstance(watched.error, unclobber.InplaceError) != (self.facts.family != "illegal"):
                self.blame("watch", "verdict", "ours or torch's", repr(watched.error))
        if not same(watched.kept, plain.kept):
            self.blame("watch", "values", "others", difference(watched.kept, plain.kept))
        if self.facts.silently_wrong and not watched.findings and not self.facts.past_torch:
            self.blame("watch", "findings", "silent", difference(plain.kept, self.facts.truth.ending.kept))
        warned = any(isinstance(w.message, unclobber.SilentWriteWarning) for w in watched.warnings)
        if warned != any(finding.torch_message is None and not finding.ahead for finding in watched.findings):
            self.blame("watch", "findings", "not warned of", [f.message for f in watched.findings])

    def _check_strict(self, strict: Ending, watched: Ending) -> None:
        """It raises where watch has anything to say, and goes the same way until then."""
        if (strict.error is not None) != (watched.error is not None or bool(watched.findings)):
            told = [finding.message for finding in watched.findings]
            self.blame("strict", "verdict", "another one", f"{strict.error!r}\n{told}")
        if not begins(strict.kept, self.facts.plain.kept):
            self.blame("strict", "values", "others")
        silent = any(f.torch_message is None and not f.ahead for f in watched.findings)
        if strict.error is not None and not silent and strict.sentence != watched.sentence:
            self.blame("strict", "sentence", "another one", f"{watched.sentence}\n{strict.sentence}")

    def _check_fingerprint(self, printed: Ending, watched: Ending) -> None:
        """What watch says, and more only where something changed."""
        if (printed.sentence, type(printed.error)) != (watched.sentence, type(watched.error)):
            told = f"{watched.error!r}\n{printed.error!r}"
            self.blame("fingerprint", "verdict", "another one than watch's", told)
        if not same(printed.kept, self.facts.plain.kept):
            self.blame("fingerprint", "values", "others", difference(printed.kept, self.facts.plain.kept))
        lost = _places(watched) - _places(printed)
        if lost:
            self.blame("fingerprint", "findings", "lost one of watch's", lost)
        more = [f for f in printed.findings if f.code in SILENT and _place(f) not in _places(watched)]
        if more and not self.facts.anything_changed:
            self.blame("fingerprint", "findings", "false alarm", [finding.message for finding in more])
        if self.facts.silently_wrong and not printed.findings:
            self.blame("fingerprint", "findings", "silent")

    # --- guard and audit --------------------------------------------------------------------------

    def _check_guard(self, guarded: Ending) -> None:
        """What a run with copies does: its gradients to the bit, or its refusal."""
        ended = self.facts.truth.ending
        if self.facts.past_torch:
            return  # nobody can have such a value back
        if ended.error is not None:
            spoilt = self.facts.wrong_before_the_end or self.facts.runs_again_otherwise
            if spoilt and _is_recomputation(guarded.error):
                self.judgement.counts["guard refused a recomputation"] += 1
            elif guarded.sentence != ended.sentence:
                self.blame("guard", "sentence", "another one", f"{ended.sentence}\n{guarded.sentence}")
            return
        if guarded.error is not None:
            # what a checkpoint's code reads again by itself can't be handed to it
            right = self.facts.right_already and not self.facts.runs_again_otherwise
            if right or not self.facts.checkpointed:
                self.blame("guard", "verdict", "refused", repr(guarded.error)[:600])
            else:
                self.judgement.counts["guard refused a recomputation"] += 1
            return
        found = difference(guarded.kept, ended.kept, tolerance=self.facts.rounding)
        if found is not None:
            close = difference(guarded.kept, ended.kept, tolerance=1e-6) is None
            self.blame("guard", "values", "other bits" if close else "wrong", found)

    def _check_audit(self, audit: Ending, watched: Ending) -> None:
        """It never raises for what we explain, and knows all that watch knows."""
        plain = self.facts.plain
        if self.facts.family == "illegal":
            if audit.sentence != plain.sentence:
                self.blame("audit", "verdict", "another error", f"{plain.error!r}\n{audit.error!r}")
            if audit.error is not None:
                return  # the step's own error comes out instead of what was found
        elif self.facts.ends_by_itself(audit.error):
            return
        elif audit.error is not None:
            self.blame("audit", "verdict", "raised", repr(audit.error)[:600])
        # What a differentiated backward saves anew is the right value, in memory that no write reaches.
        repaired = {f.needed.site.line for f in audit.findings if f.needed is not None and f.needed.site}
        lost = {
            _place(finding)
            for finding in watched.findings
            if finding.saved is None
            or finding.saved.site is None
            or not repaired & set(lines_of(finding.saved.site))
        } - _places(audit)
        if lost and not self.facts.differentiates_changed_values:
            self.blame("audit", "findings", "lost one of watch's", lost)


def _is_recomputation(error: Exception | None) -> bool:
    """Whether we refused what a checkpoint's code would read again by itself."""
    return isinstance(error, unclobber.InplaceError) and error.finding.code == "UC105"


def _places(ending: Ending) -> set[Any]:
    return {_place(finding) for finding in ending.findings}


def _place(finding: Any) -> Any:
    """What makes two findings the same one. Which operation's graph was freed, several threads may tell
    differently: for UC301 it counts that there is one."""
    site = finding.saved.site if finding.saved is not None and finding.code != "UC301" else None
    return (finding.code, None if site is None else (site.line, site.column))
