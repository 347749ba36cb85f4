"""Is a finding true? Its lines, its names and that there is anything to find."""

from __future__ import annotations

import re
from typing import Any

from ._copies import PAST_TORCH, Need
from ._facts import Facts
from ._faults import About, Judgement
from ._script import Script

SILENT = ("UC102", "UC103", "UC104", "UC105")


def check_finding(mode: str, finding: Any, facts: Facts, judgement: Judgement) -> None:
    """Blame the mode for everything in the finding that is not so."""
    _Check(mode, finding, facts, judgement).check()


class _Check:
    def __init__(self, mode: str, finding: Any, facts: Facts, judgement: Judgement) -> None:
        self.mode = mode
        self.finding = finding
        self.facts = facts
        self.judgement = judgement

    def blame(self, about: About, kind: str, detail: object = "") -> None:
        self.judgement.blame(self.mode, about, kind, f"{detail}\n{_shown(self.finding, self.facts.script)}")

    def check(self) -> None:
        code, facts = self.finding.code, self.facts
        if code == "UC101" and self.mode not in ("guard", "audit") and facts.plain.error is None:
            self.blame("findings", "false alarm: plain torch raises nothing")
        if code in ("UC102", "UC103") and self.finding.saved is not None and not facts.anything_changed:
            self.blame("findings", "false alarm: nothing changed")
        if code in ("UC104", "UC105") and facts.right_already and not facts.runs_again_otherwise:
            self.blame("findings", "false alarm: the gradients are right")
        if code in ("UC101", "UC102", "UC103"):
            self._check_conflict()
        elif code not in SILENT:
            self._check_refusal()

    # --- a saved tensor was overwritten -----------------------------------------------------------

    def _check_conflict(self) -> None:
        """There is such a need of such a save, and something happened in between."""
        finding, facts = self.finding, self.facts
        if finding.saved is None or facts.checkpointed or facts.swaps:
            return
        if finding.saved.site is None or finding.needed is None or finding.needed.site is None:
            self.blame("lines", "no line")
            return
        saved, needed = lines_of(finding.saved.site), lines_of(finding.needed.site)
        there = [need for need in facts.truth.needs if _is_of(need, saved)]
        asked = [need for need in there if needed[0] in need.lines]
        silent = finding.torch_message is None and not finding.ahead
        spoilt = [need for need in asked if need.changed or (need.moved and not silent)]
        runs_astray = self.mode not in ("guard", "audit") and facts.differentiates_changed_values
        if not spoilt and asked and runs_astray:
            return  # the write depends on a gradient, which is another one with copies
        if not spoilt:
            self.blame("lines", "another need" if asked else "needed line" if there else "saved line")
            return
        self._check_writes(spoilt)
        self._check_names(spoilt)
        if self.mode != "fingerprint" and facts.past_torch:
            return  # only a hash can tell that NumPy wrote before the writes that were seen
        if self.mode not in ("guard", "audit") and facts.astray:
            return  # an optimizer's step by other gradients writes other values
        if finding.harmless and all(need.changed for need in spoilt) and not facts.unread(spoilt):
            self.blame("findings", "called harmless")

    def _check_writes(self, spoilt: list[Need]) -> None:
        """The lines that are shown wrote to that memory, and none is left out that torch counts."""
        truth = self.facts.truth
        if truth.writes is None:
            self.judgement.counts["findings whose writes could not be traced"] += 1
            return
        shown = {lines_of(write.site)[0] for write in self.finding.writes if write.site is not None}
        true = [truth.writes[truth.needs.index(need)] for need in spoilt]
        told = f"truth: {[[(write.operation, write.lines) for write in one] for one in true]}"
        if not any(shown <= {line for write in one for line in write.lines} for one in true):
            self.blame("lines", "written line", told)
        elif self.finding.code == "UC101":
            counted = [[w for w in one if w.lines and w.operation != PAST_TORCH] for one in true]
            if not any(all(shown & set(write.lines) for write in one) for one in counted):
                self.blame("lines", "a write is missing", told)
        elif not shown and any(true) and not self.facts.past_torch:
            self.blame("lines", "no write", told)

    def _check_names(self, spoilt: list[Need]) -> None:
        """A variable that is named is the saved tensor, or lies in its memory."""
        known = self.facts.script.variables
        name = self.finding.saved.expression
        if name in known and not any(name in need.names | need.saved.names for need in spoilt):
            self.blame("lines", "name of what was saved", name)
        for write in self.finding.writes:
            root = (write.expression or "").partition(".")[0].partition("[")[0]
            if root in known and write.overlaps_needed and not any(root in need.sharing for need in spoilt):
                self.blame("lines", "name of what was written", root)

    # --- torch refused ----------------------------------------------------------------------------

    def _check_refusal(self) -> None:
        """The line is the one that raised; what made the tensor did, and so did what freed the graph."""
        finding, facts = self.finding, self.facts
        raised = set(facts.plain.lines)
        if self.mode in ("guard", "audit"):
            raised |= set(facts.truth.ending.lines)  # they go on where plain torch ends
        needed = finding.needed.site if finding.needed is not None else None
        site = needed if needed is not None else finding.writes[0].site if finding.writes else None
        if site is None:
            self.judgement.counts["refusals without a line"] += 1
        elif not set(lines_of(site)) & raised:
            self.blame("lines", "refused line", raised)
        elif finding.saved is not None and finding.saved.site is not None:
            if finding.code == "UC301":
                self._check_freed(lines_of(finding.saved.site))
            else:
                self._check_made(lines_of(finding.saved.site), lines_of(site))

    def _check_freed(self, saved: list[int]) -> None:
        freed = self.finding.freed.site if self.finding.freed is not None else None
        if freed is None or self.facts.checkpointed:
            return
        lines = set(lines_of(freed))
        asked = [set(need.lines) for need in self.facts.truth.needs if _is_of(need, saved)]
        # an operation that saved a Python number alone asks no hook
        if not (any(lines & one for one in asked) if asked else self.facts.freed_by(lines)):
            self.blame("lines", "freed line", sorted(lines))

    def _check_made(self, made: list[int], used: list[int]) -> None:
        script = self.facts.script
        if made[0] < script.first_line:
            return  # in a helper
        text = str(script).splitlines()
        origins = _origins(script, text[used[0] - 1])
        if not any(text[line - 1].strip() in origins for line in made if line <= len(text)):
            self.blame("lines", "line where it was made")
        elif self.finding.code == "UC203" and not re.search("chunk|split|unbind", text[made[0] - 1]):
            self.blame("lines", "line that made several views")


def _is_of(need: Need, saved: list[int]) -> bool:
    """Whether the need is of something that was saved on these lines; a helper's may be the innermost."""
    if need.saved.on_ctx:
        return bool(set(saved) & set(need.saved.lines))
    return need.saved.lines[:1] == (saved[0],)


def lines_of(site: Any) -> list[int]:
    """The script's lines of a site, its own first."""
    return [site.line, *(frame.line for frame in site.stack if frame.path == site.path)]


def _origins(script: Script, statement: str) -> set[str]:
    """The statement and all that its tensors come from."""
    found, words = {statement.strip()}, set(re.findall(r"\w+", statement))
    for text in reversed(script.statements):
        targets, equals, _ = text.partition(" = ")
        if equals and set(re.findall(r"\w+", targets)) & words:
            found.add(text)
            words |= set(re.findall(r"\w+", text))
    return found


def _shown(finding: Any, script: Script) -> str:
    """A finding's places with their text."""
    text = str(script).splitlines()
    places = [
        ("saved", finding.saved),
        *((f"written by {write.operation}", write) for write in finding.writes),
    ]
    places += [("freed", finding.freed), ("needed", finding.needed)]
    lines = [f"{finding.code} {finding.message}"]
    for what, place in places:
        if place is not None and place.site is not None:
            number = place.site.line
            lines.append(f"  {what} {number}: {text[number - 1].strip() if number <= len(text) else ''}")
    return "\n".join(lines)
