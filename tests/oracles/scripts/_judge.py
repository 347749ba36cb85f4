"""Compare what each mode says of a script with what is true of it."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

import unclobber

from ._copies import Need, Truth, truth, with_copies
from ._run import Ending, audited, begins, difference, run, same
from ._script import Script

Context = Callable[[], AbstractContextManager[Any]]

MODES: dict[str, Context] = {
    "watch": unclobber.watch,
    "strict": lambda: unclobber.watch(strict=True),
    "fingerprint": lambda: unclobber.watch(fingerprint=1.0),
    "guard": unclobber.guard,
}
"""Beside these, ``audit`` is a function and no context."""


@dataclass(frozen=True)
class Fault:
    """One thing that a mode got wrong."""

    mode: str
    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.mode}: {self.kind}\n{self.detail}"


@dataclass
class Judgement:
    """All faults of one script, and what was counted on the way."""

    faults: list[Fault] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def blame(self, mode: str, kind: str, detail: object = "") -> None:
        self.faults.append(Fault(mode, kind, str(detail)))
        self.counts[f"{mode}: {kind}"] += 1


_SILENT = ("UC102", "UC103", "UC104", "UC105")

Family = Literal["version", "other family", "none", "illegal"]

_FAMILY = (
    "a leaf Variable that requires grad",
    "a view of a leaf Variable",
    "is a view and",
    "is being modified inplace",
    "backward through the graph a second time",
    "Inference tensors cannot be saved",
    "Inplace update to inference tensor",
    "more than one element of the written-to tensor",
    "unsupported operation: some elements",
    "Can't detach views in-place",
    "detached in-place",
    "can't require gradients",
    "modified inplace",
)


def family(ending: Ending) -> Family:
    """What a plain run ended with: an error about in-place operations, or about something else."""
    if ending.error is None:
        return "none"
    text = str(ending.error)
    if "modified by an inplace operation: [" in text:
        return "version"
    return "other family" if any(words in text for words in _FAMILY) else "illegal"


def judge(script: Script, modes: dict[str, Context] | None = None) -> Judgement:
    """Run the script in every mode and compare.

    Args:
        script: What to run.
        modes: Others in their places, for tests that the comparison can fail.
    """
    contexts = MODES | (modes or {})
    judgement = Judgement()
    plain, told = run(script), truth(script)
    one = _Script(script, plain, told, judgement)
    one.check_truth()
    watched = one.run("watch", contexts["watch"])
    one.check_watch(watched)
    one.check_strict(one.run("strict", contexts["strict"]), watched)
    one.check_fingerprint(one.run("fingerprint", contexts["fingerprint"]), watched)
    one.check_guard(one.run("guard", contexts["guard"]))
    one.check_audit(one.run("audit", None), watched)
    one.count(watched)
    script.forget()
    return judgement


class _Script:
    """One script with its two oracles."""

    def __init__(self, script: Script, plain: Ending, told: Truth, judgement: Judgement) -> None:
        self.script = script
        self.plain = plain
        self.truth = told
        self.family = family(plain)
        self.blame = judgement.blame
        self.counts = judgement.counts
        self.checkpointed = script.uses("checkpoint(")
        self.swaps = script.uses(".data =")
        self.past_torch = script.uses(".numpy()")
        self.right_already = plain.error is None and same(plain.kept, told.ending.kept)
        """Plain torch gives the gradients of value semantics."""

    # --- the oracles against each other -----------------------------------------------------------

    def check_truth(self) -> None:
        """Plain torch refuses where a saved tensor's counter moved, and only there."""
        refusal = None if self.checkpointed else self.truth.refusal
        if self.family == "other family" and "another view of its base" in str(self.plain.error):
            return  # torch asks such a view, when it was saved, for its history: a copy has none
        if self.family == "version" and not self.checkpointed and refusal is None:
            self.blame("oracle", "plain raised, the counters stand still", self.plain.error)
        elsewhere = refusal is not None and refusal.lane == "right" and self.plain.error is not None
        if refusal is not None and self.family != "version" and not elsewhere:
            self.blame("oracle", "a counter moved, plain did not raise", refusal.saved.lines)
        if refusal is not None and self.family == "version" and not set(self.plain.lines) & set(refusal.lines):
            self.blame("oracle", "plain raised elsewhere", f"{self.plain.lines} {refusal.lines}")
        ended = self.truth.ending
        if self.family in ("other family", "illegal") and ended.sentence != self.plain.sentence:
            self.blame("oracle", "another error with copies", f"{ended.error!r}\n{self.plain.error!r}")

    # --- one run ----------------------------------------------------------------------------------

    def run(self, mode: str, context: Context | None) -> Ending:
        ending = audited(self.script) if context is None else run(self.script, context)
        self._check_left_behind(mode)
        self._check_warnings(mode, ending)
        for finding in ending.findings:
            self._check_story(mode, finding)
        return ending

    def _check_left_behind(self, mode: str) -> None:
        now = _surroundings()
        if now != _BEFORE:
            self.blame(mode, "torch is not as before", now)

    def _check_warnings(self, mode: str, ending: Ending) -> None:
        known = {str(warning.message) for warning in self.plain.warnings}
        for warning in ending.warnings:
            if isinstance(warning.message, unclobber.SilentWriteWarning):
                if mode in ("guard", "audit"):
                    self.blame(mode, "warned", warning.message)
            elif mode in ("guard", "audit") and "unclobber" not in str(warning.message):
                continue  # they may get further than plain torch does
            elif str(warning.message) not in known:
                self.blame(mode, "another warning", warning.message)

    def _check_story(self, mode: str, finding: Any) -> None:
        from unclobber.report import to_text

        try:
            to_text(finding)
        except Exception as error:
            self.blame(mode, "no story", repr(error))

    # --- watch, strict, fingerprint ---------------------------------------------------------------

    def check_watch(self, watched: Ending) -> None:
        self._check_refusal("watch", watched)
        if not same(watched.kept, self.plain.kept):
            self.blame("watch", "other values", difference(watched.kept, self.plain.kept))
        self._check_findings("watch", watched)
        silently_wrong = self.plain.error is None and not self.right_already
        if silently_wrong and not watched.findings and not self.past_torch:
            self.blame("watch", "silent", difference(self.plain.kept, self.truth.ending.kept))
        warned = any(isinstance(w.message, unclobber.SilentWriteWarning) for w in watched.warnings)
        if warned != any(f.torch_message is None for f in watched.findings):
            self.blame("watch", "findings and warnings differ", [f.message for f in watched.findings])

    def _check_refusal(self, mode: str, ending: Ending) -> None:
        """The same error as plain torch's, ours where it is about in-place operations."""
        if (ending.error is None) != (self.plain.error is None):
            self.blame(mode, "another verdict", f"plain: {self.plain.error!r}\n{mode}: {ending.error!r}")
            return
        if ending.error is None:
            return
        if ending.sentence != self.plain.sentence:
            self.blame(mode, "another sentence", f"{self.plain.sentence}\n{ending.sentence}")
        if ending.lines != self.plain.lines and not set(ending.lines) & set(self.plain.lines):
            self.blame(mode, "raised on another line", f"plain: {self.plain.lines}, {mode}: {ending.lines}")
        ours = isinstance(ending.error, unclobber.InplaceError)
        if ours != (self.family != "illegal"):
            self.blame(mode, "ours instead of torch's" if ours else "torch's instead of ours", ending.error)

    def check_strict(self, strict: Ending, watched: Ending) -> None:
        if (strict.error is not None) != (watched.error is not None or bool(watched.findings)):
            self.blame(
                "strict", "another verdict", f"{strict.error!r}\n{[f.message for f in watched.findings]}"
            )
        if not begins(strict.kept, self.plain.kept):
            self.blame("strict", "other values")
        silent = any(f.torch_message is None for f in watched.findings)
        if strict.error is not None and not silent and strict.sentence != watched.sentence:
            self.blame("strict", "another sentence", f"{watched.sentence}\n{strict.sentence}")
        self._check_findings("strict", strict)

    def check_fingerprint(self, printed: Ending, watched: Ending) -> None:
        if (printed.sentence, type(printed.error)) != (watched.sentence, type(watched.error)):
            self.blame("fingerprint", "another verdict than watch", f"{watched.error!r}\n{printed.error!r}")
        if not same(printed.kept, self.plain.kept):
            self.blame("fingerprint", "other values", difference(printed.kept, self.plain.kept))
        lost = _keys(watched) - _keys(printed)
        if lost:
            self.blame("fingerprint", "lost a finding of watch", lost)
        more = [f for f in printed.findings if f.code in _SILENT and _key(f) not in _keys(watched)]
        if more and not self._anything_changed():
            self.blame("fingerprint", "false alarm", [f.message for f in more])
        if self.past_torch and self.plain.error is None and not self.right_already and not printed.findings:
            self.blame("fingerprint", "silent", difference(self.plain.kept, self.truth.ending.kept))
        self._check_findings("fingerprint", printed)

    # --- guard and audit --------------------------------------------------------------------------

    def check_guard(self, guarded: Ending) -> None:
        ended = self.truth.ending
        if self.past_torch:
            return  # nobody can have such a value back
        if ended.error is not None:
            if guarded.error is None:
                self.blame("guard", "allowed what copies do not", ended.error)
            elif guarded.sentence != ended.sentence:
                self.blame("guard", "another sentence", f"{ended.sentence}\n{guarded.sentence}")
            return
        if guarded.error is not None:
            may = self.checkpointed and not self.right_already
            self.counts["guard refused a recomputation"] += may
            if not may:
                self.blame("guard", "refused", repr(guarded.error)[:600])
            return
        found = difference(guarded.kept, ended.kept)
        if found is not None:
            close = difference(guarded.kept, ended.kept, tolerance=1e-6) is None
            self.blame("guard", "other bits" if close else "wrong", found)
        self._check_findings("guard", guarded)

    def check_audit(self, audit: Ending, watched: Ending) -> None:
        if self.family == "illegal":
            if audit.sentence != self.plain.sentence:
                self.blame("audit", "another error", f"{self.plain.error!r}\n{audit.error!r}")
        elif audit.error is not None:
            self.blame("audit", "raised", repr(audit.error)[:600])
        lost = {_place(f) for f in watched.findings} - {_place(f) for f in audit.findings}
        if lost:
            self.blame("audit", "lost a finding of watch", lost)
        self._check_findings("audit", audit)

    # --- findings ---------------------------------------------------------------------------------

    def _anything_changed(self) -> bool:
        if self.checkpointed or self.swaps:
            return not self.right_already
        return any(need.changed for need in self.truth.needs)

    def _check_findings(self, mode: str, ending: Ending) -> None:
        for finding in ending.findings:
            self.counts[f"{mode} findings"] += 1
            if finding.code == "UC101":
                if mode in ("watch", "strict", "fingerprint") and self.plain.error is None:
                    self.blame(mode, "false alarm", finding.message)
                self._check_lines(mode, finding)
            elif finding.code in ("UC102", "UC103"):
                if not self._anything_changed() and finding.saved is not None:
                    self.blame(mode, "false alarm", f"{finding.code} {finding.message}")
                self._check_lines(mode, finding)
            elif finding.code in ("UC104", "UC105"):
                if self.right_already:
                    self.blame(mode, "false alarm", f"{finding.code} {finding.message}")
            else:
                self._check_refused(mode, finding)

    def _check_lines(self, mode: str, finding: Any) -> None:
        """There is such a need, and the lines that are shown wrote to it in between."""
        if finding.saved is None or finding.needed is None or finding.saved.site is None:
            if finding.saved is not None:
                self.blame(mode, "no line", finding.message)
            return
        if self.checkpointed or self.swaps:
            return
        saved, needed = _lines(finding.saved.site), _lines(finding.needed.site)
        silent = finding.torch_message is None
        places = [
            need for need in self.truth.needs
            if need.saved.lines[:1] == (saved[0],) or (need.saved.on_ctx and set(saved) & set(need.saved.lines))
        ]  # fmt: skip
        if not places:
            self.blame(mode, "wrong saved line", _shown(finding, self.script))
            return
        asked = [need for need in places if needed[0] in need.lines]
        if not asked:
            self.blame(mode, "wrong needed line", _shown(finding, self.script))
            return
        spoilt = [need for need in asked if need.changed or (need.moved and not silent)]
        if not spoilt:
            self.blame(mode, "false alarm", f"nothing changed: {_shown(finding, self.script)}")
            return
        self._check_writes(mode, finding, spoilt)
        if finding.harmless and all(need.changed for need in spoilt) and not self._unread(spoilt):
            self.blame(mode, "called harmless", _shown(finding, self.script))
        self.counts["lines right"] += 1

    def _check_writes(self, mode: str, finding: Any, spoilt: list[Need]) -> None:
        """The lines that are shown wrote to that memory, and none is left out that torch counts."""
        if self.truth.writes is None:
            self.counts["writes not traced"] += 1
            return
        shown = {_lines(write.site)[0] for write in finding.writes if write.site is not None}
        true = [self.truth.writes[self.truth.needs.index(need)] for need in spoilt]
        told = f"{_shown(finding, self.script)}\ntruth: {[[(w.operation, w.lines) for w in one] for one in true]}"
        if not any(shown <= {line for write in one for line in write.lines} for one in true):
            self.blame(mode, "wrong write lines", told)
        elif finding.code == "UC101":
            if not any(all(shown & set(write.lines) for write in one if write.lines) for one in true):
                self.blame(mode, "missing write lines", told)
        elif not shown and any(true) and not self.past_torch:
            self.blame(mode, "missing write lines", told)

    def _unread(self, needs: list[Need]) -> bool:
        """Whether no gradient is another when backward is handed the memory as it is."""
        return any(
            same(
                with_copies(self.script, stale=self.truth.needs.index(need)).kept,
                self.truth.ending.kept,
            )
            for need in needs
        )

    def _check_refused(self, mode: str, finding: Any) -> None:
        """torch refused a write, or a second backward: the line is the one that raised."""
        raised = self.plain if mode != "guard" and mode != "audit" else self.truth.ending
        shown = finding.needed if finding.code == "UC301" or not finding.writes else None
        site = shown.site if shown is not None else finding.writes[0].site if finding.writes else None
        if finding.needed is not None and finding.code != "UC301":
            site = finding.needed.site
        if site is None:
            self.counts["refusals without a line"] += 1
        elif not set(_lines(site)) & {*raised.lines, *self.plain.lines}:
            self.blame(mode, "wrong refused line", f"{_shown(finding, self.script)}\n{raised.lines}")

    def count(self, watched: Ending) -> None:
        needs = self.truth.needs
        self.counts["scripts"] += 1
        self.counts["legal"] += self.family != "illegal"
        self.counts["plain right"] += self.right_already
        self.counts["plain refused: version"] += self.family == "version"
        self.counts["plain refused: others"] += self.family == "other family"
        self.counts["plain silently wrong"] += self.plain.error is None and not self.right_already
        self.counts["saved overwritten"] += any(need.changed or need.moved for need in needs)


def _key(finding: Any) -> Any:
    return finding.code, _place(finding)


def _place(finding: Any) -> Any:
    site = finding.saved.site if finding.saved is not None else None
    return None if site is None else (site.line, site.column)


def _keys(ending: Ending) -> set[Any]:
    return {_key(finding) for finding in ending.findings}


def _lines(site: Any) -> list[int]:
    """The script's lines of a site, its own first."""
    return [site.line, *(frame.line for frame in site.stack if frame.path == site.path)]


def _shown(finding: Any, script: Script) -> str:
    """A finding's lines with their text."""
    text = str(script).splitlines()
    places = [("saved", finding.saved.site if finding.saved else None)]
    places += [(f"write {w.operation}", w.site) for w in finding.writes]
    places += [("needed", finding.needed.site if finding.needed else None)]
    return f"{finding.code} {finding.message}\n" + "\n".join(
        f"  {what} {site.line}: {text[site.line - 1].strip() if site.line <= len(text) else '?'}"
        for what, site in places
        if site is not None
    )


def _surroundings() -> tuple[Any, ...]:
    """What must be as it was once a context is left."""
    graph = torch.autograd.graph
    return (
        torch._C._autograd._top_saved_tensors_default_hooks(False),
        *(
            getattr(home, name)
            for home, name in (
                (torch._C._autograd, "_push_saved_tensors_default_hooks"),
                (torch._C._autograd, "_saved_tensors_hooks_disable"),
                (graph, "_engine_run_backward"),
                (torch.autograd, "backward"),
                (torch.autograd, "grad"),
                (torch.Tensor, "backward"),
                (torch.Tensor, "register_hook"),
                (torch.Tensor, "data"),
                (torch.Tensor, "detach_"),
                (torch.optim.Optimizer, "step"),
                (torch.nn.Module, "__call__"),
            )
            if hasattr(home, name)
        ),
        "apply" in vars(torch.autograd.Function),
        _refuses(),
    )


def _refuses() -> bool:
    """Whether torch's own check is on, in torch's own words."""
    w = torch.ones(2, requires_grad=True)
    y = w.exp()
    y.add_(1)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return type(error) is RuntimeError
    return False


_BEFORE = _surroundings()
