"""Findings from suspicions: places as reports show them, and the texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from textwrap import dedent
from typing import NamedTuple

from ..model import CODES, Extent, Finding, Fix, Frame, Need, Save, Site, Write
from ..syntax import SourcePart, torch_table
from ._rules import HIGH, CheckRule, Suspicion
from ._values import SourceSpan

_PREFIXES = {
    "write": "this line {} if it runs with gradients on",
    "refusal": "this line {}",
    "value": "the result {} wrong here, and torch says nothing",
}
"""Beginnings of the message, by the stage that goes wrong; most often it is a backward."""


def findings(texts: SourceTexts, flags: Iterable[Suspicion], *, all_rules: bool = False) -> list[Finding]:
    """Return the findings to report for a file."""
    reported = [flag for flag in flags if flag.is_reported(all_rules=all_rules)]
    return [finding_of(suspicion, texts) for suspicion in _once(reported)]


def _once(suspicions: Sequence[Suspicion]) -> list[Suspicion]:
    """Return each mistake once: a chain's where it is made, and no consequences of another."""
    # A chain saves and writes at its one call, where no name is overwritten and nothing can be written.
    called = {each.how: each for each in suspicions if _is_chain(each)}
    chained = (CheckRule.MODULE, CheckRule.UNSEEN)
    made = {e.how for e in suspicions if e.rule in chained and e.saved and e.write != e.saved}
    steps = {each.span[:4] for each in suspicions if each.rule is CheckRule.STEP}
    refused = {s.span[:4] for s in suspicions if s.rule is CheckRule.SEVERAL and s.confidence > 1}
    twice = {each.needed.line for each in suspicions if each.rule is CheckRule.TWICE and each.needed}
    known = {each.span[:4] for each in suspicions if each.rule is not CheckRule.UNSEEN}
    said = {CheckRule.RETAINED: steps, CheckRule.SAVED: refused, CheckRule.UNSEEN: known}
    causes: dict[object, Suspicion] = {}
    for each in suspicions:
        if each.rule is CheckRule.STEP and each.needed is not None and each.needed.line in twice:
            continue
        if (_is_chain(each) and each.how in made) or each.span[:4] in said.get(each.rule, ()):
            continue
        flag = each
        if each.rule is CheckRule.MODULE:
            flag = called.get(each.how, each)._replace(rule=each.rule, write=each.write, saved=each.saved)
        elif _is_chain(each) and each.rule is CheckRule.SAVED:
            flag = each._replace(rule=CheckRule.MODULE)
        first = causes.setdefault(_cause(flag), flag)
        if first is not flag:
            confidence, needed = max(first.confidence, flag.confidence), first.needed or flag.needed
            others = (*first.others, flag)
            causes[_cause(flag)] = first._replace(confidence=confidence, needed=needed, others=others)
    return list(causes.values())


def _is_chain(suspicion: Suspicion) -> bool:
    return suspicion.rule in (CheckRule.SAVED, CheckRule.UNSEEN) and suspicion.write == suspicion.saved


def _cause(suspicion: Suspicion) -> object:
    """Return what several suspicions share if one change of the program ends all of them."""
    if suspicion.write is not None and suspicion.write.inner:
        return suspicion.rule, suspicion.write.inner
    joined = (CheckRule.SAVED, CheckRule.STEP, CheckRule.UNSEEN)
    if suspicion.rule in joined and suspicion.write != suspicion.saved:
        return suspicion.rule, suspicion.saved or suspicion.span.function, suspicion.name.partition("[")[0]
    return suspicion


def finding_of(suspicion: Suspicion, source: SourceTexts) -> Finding:
    """Return the finding of one suspicion."""
    rule = suspicion.rule.value
    high = suspicion.confidence >= max(HIGH, rule.reported_from) and rule.is_measured_high
    high &= suspicion.needed is not None or not rule.is_high_with_backward
    words = _words(suspicion, source)
    stage = rule.stage or CODES[rule.code].stage
    verb = ("is" if high else "may be") if stage == "value" else ("fails" if high else "may fail")
    prefix = _PREFIXES.get(stage, "backward {} here if this runs with gradients on").format(verb)
    advice = (suspicion.more == "carried" and rule.if_carried) or rule.advice
    labels = {"write": rule.write, "saved": rule.saved, "needed": "needed here", "freed": "freed here"}
    return Finding(
        code=rule.code, message=f"{prefix}: {rule.message.format(**words)}",
        variant=rule.variants.get(suspicion.more, rule.variant),
        saved=_save(suspicion, source), writes=_writes(suspicion, source),
        needed=Need(source.site(suspicion.needed)) if suspicion.needed is not None else None,
        freed=Need(source.site(suspicion.freed)) if suspicion.freed is not None else None,
        fixes=(Fix(advice, general=True),),
        labels=tuple((place, text.format(**words)) for place, text in labels.items() if text),
        confidence="high" if high else "medium",
    )  # fmt: skip


def _words(suspicion: Suspicion, source: SourceTexts) -> dict[str, str]:
    """Return the words that the rule's texts use."""
    name, operand = _name(suspicion), suspicion.operand
    # What another file's function saved has no expression here.
    given = "its input" if operand is None or operand.inner else f"`{operand.part.text(source.lines)}`"
    return {
        "name": f"`{name}`" if name else "a tensor",
        "operation": f"`{suspicion.operation.strip('_') or 'an operation'}`",
        "kept": "its result" if suspicion.role == "result" else given if len(given) < 40 else "its input",
        "how": f"`{suspicion.how}`" if suspicion.how else "this",
        # `unsqueeze_` writes no element.
        "done": "changed in shape" if suspicion.how[:-1] in torch_table().returns_views else "overwritten",
    }


def _name(suspicion: Suspicion) -> str:
    if suspicion.write is not None and suspicion.write.inner:
        return ""  # a parameter of another file's function
    return re.sub(r"^leaf \d+$|^frozen .*$|\.?[#@][0-9]+|\.data$", "", suspicion.name)


def _save(suspicion: Suspicion, source: SourceTexts) -> Save | None:
    """Return the place that explains the suspicion as a save; None if there is none."""
    if suspicion.saved is None:
        return None
    operand = suspicion.operand
    return Save(
        site=source.site(suspicion.saved), shape=(), dtype="unknown", bytes=0, version=0,
        operation=suspicion.operation or None, role=suspicion.role or None,
        expression=None if operand is None else operand.part.text(source.lines),
        extent=None if operand is None else source.extent(operand),
    )  # fmt: skip


def _writes(suspicion: Suspicion, source: SourceTexts) -> tuple[Write, ...]:
    """Return the lines to blame as writes; empty if the line writes nothing."""
    unseen = suspicion.rule is CheckRule.DATA  # by the version counter
    return tuple(
        Write(
            site=source.site(each.write), operation=each.how or "write", bumps_version=not unseen,
            overlaps_needed=True, expression=_name(each) or None, past_counter="data" if unseen else None,
        )
        for each in (suspicion, *suspicion.others)
        if each.write is not None
    )  # fmt: skip


# --- places ------------------------------------------------------------------------------------------
class SourceTexts(NamedTuple):
    """The lines of a file, or of all cells of a notebook."""

    lines: Sequence[str]
    parts: Sequence[tuple[int, str]]
    """The number of lines before each part, and the path that reports name it by."""

    @staticmethod
    def of(parts: Sequence[SourcePart]) -> SourceTexts:
        before = accumulate((part.python.count("\n") + 1 for part in parts), initial=0)
        lines = [line for part in parts for line in part.python.split("\n")]
        return SourceTexts(lines, tuple(zip(before, (part.path for part in parts), strict=False)))

    def place(self, line: int) -> tuple[str, int]:
        """Return a place as reports name it: of a notebook, the cell and the line in it."""
        before, path = next(part for part in reversed(self.parts) if part[0] < max(line, 1))
        return path, line - before

    def site(self, span: SourceSpan) -> Site:
        """Return the location as a site of its file or cell."""
        line, column, end_line, end_column = self.extent(span)
        path, statement_line = self.place(span.statement_line)
        statement = "\n".join(self.lines[span.statement_line - 1 : span.statement_end_line])
        below = () if span.inner is None else (Frame(span.inner[0], span.inner[1], span.inner[3]),)
        return Site(
            path=path, line=line, column=column, end_line=end_line, end_column=end_column,
            function=span.function, source=span.part.text(self.lines),
            statement_line=statement_line,
            statement_end_line=statement_line + span.statement_end_line - span.statement_line,
            statement=dedent(statement).rstrip(), below=below,
        )  # fmt: skip

    def extent(self, span: SourceSpan) -> Extent:
        """Return the range as reports count it: columns from 1, in characters."""
        counted = span.line, span.column + 1, span.end_line, span.end_column + 1
        line, column, end_line, end_column = span.part.extent(self.lines) or counted
        before = span.statement_line - self.place(span.statement_line)[1]
        return line - before, column, end_line - before, end_column
