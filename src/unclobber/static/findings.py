"""Findings from suspicions: places as reports show them, and the texts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Literal

from ..model import CODES, Extent, Finding, Fix, Need, Save, Site, Write
from ._core import HIGH, Suspicion
from ._rules import RULES, RuleText, is_told
from ._values import SourceSpot

_PREFIXES: dict[tuple[str, bool], str] = {
    ("write", True): "this line fails if it runs with gradients on",
    ("write", False): "this line may fail if it runs with gradients on",
    ("backward", True): "backward fails here if this runs with gradients on",
    ("backward", False): "backward may fail here if this runs with gradients on",
    ("graph", True): "backward fails here if this runs with gradients on",
    ("graph", False): "backward may fail here if this runs with gradients on",
    ("value", True): "the result is wrong here, and torch says nothing",
    ("value", False): "the result may be wrong here, and torch says nothing",
}
"""Beginnings of the message, by the stage that goes wrong and whether the confidence is high."""


def findings(
    path: str, text: str, suspicions: Iterable[Suspicion], *, all_rules: bool = False
) -> list[Finding]:
    """Return the findings to report for a file.

    Args:
        path: Absolute.
        text: The file's text.
        suspicions: The interpreter's suspicions.
        all_rules: Also apply the rules that are reported only on request.
    """
    told = [one for one in suspicions if is_told(one.rule, one.level, all_rules=all_rules)]
    lines = text.split("\n")
    return [_finding(one, os.path.abspath(path), lines) for one in _once(told)]


def _once(told: Sequence[Suspicion]) -> list[Suspicion]:
    """Return each mistake once: of a chain of modules at its call, and without consequences of a
    freed graph."""
    called = {one.how for one in told if one.rule == "saved" and one.write == one.saved}
    twice = {one.needed.line for one in told if one.rule == "twice" and one.needed}
    kept: list[Suspicion] = []
    for one in told:
        if one.rule == "module" and one.how in called:
            continue
        if one.rule == "step" and one.needed is not None and one.needed.line in twice:
            continue
        same = any(k.rule == one.rule and k.write and one.write and k.write == one.write for k in kept)
        if not same:
            kept.append(one)
    return kept


def _finding(one: Suspicion, path: str, lines: Sequence[str]) -> Finding:
    """Return the finding of one suspicion."""
    rule = RULES[one.rule]
    high = one.level >= HIGH
    words = _words(one)
    stage: str = CODES[rule.code].stage
    if one.rule in ("self-overlap", "held", "operand", "data", "saved-data"):
        stage = "value"
    labels = [("write", rule.write.format(**words))]
    if rule.saved:
        labels.append(("saved", rule.saved.format(**words)))
    confidence: Literal["high", "medium"] = "high" if high else "medium"
    return Finding(
        code=rule.code,
        message=f"{_PREFIXES[stage, high]}: {rule.message.format(**words)}",
        variant=_variant(rule, one),
        saved=_save(one, path, lines),
        writes=_writes(one, path, lines),
        needed=Need(_site(one.needed, path, lines)) if one.needed is not None else None,
        freed=Need(_site(one.freed, path, lines)) if one.freed is not None else None,
        fixes=tuple(Fix(advice, general=True) for advice in rule.advice),
        labels=(*labels, ("needed", "needed here"), ("freed", "freed here")),
        confidence=confidence,
    )


def _variant(rule: RuleText, one: Suspicion) -> Literal["no_grad", "inference_mode"] | None:
    found = rule.variants.get(one.more[0]) if one.more else None
    return found or rule.variant  # type: ignore[return-value]


def _words(one: Suspicion) -> dict[str, str]:
    """Return the words that the rule's texts use."""
    name = re.sub(r"^leaf \d+$|^frozen .*$", "", one.name)
    name = re.sub(r"[#@][0-9]+", "", name)
    operation = one.operation.strip("_") or "an operation"
    kept = "its result" if one.role == "result" else "its input"
    return {
        "name": f"`{name}`" if name else "a tensor",
        "operation": f"`{operation}`",
        "kept": kept,
        "how": f"`{one.how}`" if one.how else "this",
        "more": f"`{one.more[0]}`" if one.more else "",
    }


def _save(one: Suspicion, path: str, lines: Sequence[str]) -> Save | None:
    """Return the place that explains the suspicion as a save; None if there is none."""
    if one.saved is None:
        return None
    operand = one.operand
    return Save(
        site=_site(one.saved, path, lines),
        shape=(),
        dtype="unknown",
        bytes=0,
        version=0,
        operation=one.operation or None,
        role=one.role or None,
        expression=None if operand is None else _source(operand, lines),
        extent=None if operand is None else _extent(operand, lines),
    )


def _writes(one: Suspicion, path: str, lines: Sequence[str]) -> tuple[Write, ...]:
    """Return the line to blame as a write; empty if the line writes nothing."""
    if one.write is None:
        return ()
    unseen = one.rule in ("data", "saved-data")
    write = Write(
        site=_site(one.write, path, lines),
        operation=one.how or "write",
        bumps_version=not unseen,
        overlaps_needed=True,
        expression=one.name or None,
        past_counter="data" if unseen else None,
    )
    return (write,)


# --- places ------------------------------------------------------------------------------------------
def _site(spot: SourceSpot, path: str, lines: Sequence[str]) -> Site:
    """Return the location as a site of the file."""
    line, column, end_line, end_column = _extent(spot, lines)
    statement = "\n".join(lines[spot.statement_line - 1 : spot.statement_end_line])
    return Site(
        path=path,
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        function=spot.function,
        source=_source(spot, lines),
        statement_line=spot.statement_line,
        statement_end_line=spot.statement_end_line,
        statement=_dedented(statement),
    )


def _extent(spot: SourceSpot, lines: Sequence[str]) -> Extent:
    """Return the range as reports count it: columns from 1, in characters."""
    return (
        spot.line,
        _characters(lines, spot.line, spot.column) + 1,
        spot.end_line,
        _characters(lines, spot.end_line, spot.end_column) + 1,
    )


def _characters(lines: Sequence[str], line: int, column: int) -> int:
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    return len(text.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))


def _source(spot: SourceSpot, lines: Sequence[str]) -> str:
    """Return the text of the range."""
    _, column, _, end_column = _extent(spot, lines)
    shown = list(lines[spot.line - 1 : spot.end_line])
    if not shown:
        return ""
    shown[-1] = shown[-1][: end_column - 1]
    shown[0] = shown[0][column - 1 :]
    return "\n".join(shown)


def _dedented(statement: str) -> str:
    lines = statement.split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(
        [lines[0].lstrip(), *(one[indent:] if not one[:indent].strip() else one for one in lines[1:])]
    ).rstrip()
