"""Compare what the command reported about a program with what is known to be true.

``truth`` is the JSON beside a case, ``report`` the JSON of ``unclobber run --format json``. Saying
nothing where something is wrong is a miss; saying something untrue is worse, and kept apart.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

CODES: dict[str, frozenset[str]] = {
    "saved_modified": frozenset({"UC101"}),
    "silent": frozenset({"UC102", "UC103", "UC104", "UC105"}),
    "leaf": frozenset({"UC201"}),
    "view_of_leaf": frozenset({"UC202"}),
    "multi_view": frozenset({"UC203"}),
    "no_grad_view": frozenset({"UC204"}),
    "custom_function": frozenset({"UC103", "UC104", "UC205"}),
    "inference_tensor": frozenset({"UC206"}),
    "double_backward": frozenset({"UC301"}),
}
"""What each family may be called; ``allowed`` and ``other`` have no code."""

HARMLESS = {
    "disjoint_region": True,  # the write touched other elements
    "idempotent": True,  # the same values written again
    "restored": True,  # the old values were back when backward needed them
    "no_op_write": True,
    "metadata_only": True,  # the shape changed, no element did
    "zero_gradient": False,  # elements did change; that they are multiplied by 0 is another matter
    "only_sign_needed": None,  # changed values whose use is a comparison: either answer is true
    "unused_save": None,
    "gradient_not_requested": None,
}
"""By ``fp_kind``: whether no element that the derivative needs was changed."""

VERSION_MESSAGE = "modified by an inplace operation"


@dataclass(frozen=True, slots=True)
class Problem:
    """One difference; ``wrong`` is a false statement, ``missed`` an absent one."""

    kind: Literal["missed", "wrong"]
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.place}: {self.text}"


def score(truth: Mapping[str, Any], report: Mapping[str, Any], source: str, name: str) -> list[Problem]:
    """Every difference between a report and the truth; none for a full hit.

    Args:
        truth: The case's JSON.
        report: The command's JSON.
        source: The program's text: a reported line counts as the first line of its statement.
        name: The program's file name: places in other files are wrong.
    """
    codes = expected_codes(truth)
    findings = report["findings"]
    if codes is None:
        return []
    if not codes:
        return [Problem("wrong", "code", f"{f['code']} for an allowed program") for f in findings]
    problems = [
        Problem("wrong", "code", f"{f['code']}, expected {_or(codes)}")
        for f in findings
        if f["code"] not in codes
    ]
    matching = [f for f in findings if f["code"] in codes]
    if not matching:
        return [*problems, Problem("missed", "code", f"no {_or(codes)}")]
    # Several findings of the right code: the best one counts, false statements of any one do too.
    scored = [list(_finding(truth, f, _Lines(source, name))) for f in matching]
    best = min(scored, key=len)
    problems += best
    problems += [p for one in scored if one is not best for p in one if p.kind == "wrong"]
    return problems


def expected_codes(truth: Mapping[str, Any]) -> frozenset[str] | None:
    """The codes that are right for a case; empty where it is allowed, None where nothing is claimed."""
    family = truth["family"]
    if family == "allowed":
        return frozenset()
    if VERSION_MESSAGE in (truth.get("message_regex") or ""):
        return frozenset({"UC101"})
    return CODES.get(family)


class _Lines:
    """Reported places as first lines of statements of the one file that counts."""

    def __init__(self, source: str, name: str) -> None:
        self._name = name
        self._statements = sorted(
            (node.end_lineno - node.lineno, node.lineno, node.end_lineno)
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.stmt) and node.end_lineno is not None
        )

    def statement(self, place: Mapping[str, Any]) -> int | str:
        """First line of the innermost statement there; a text where it is in another file."""
        if PurePath(place["path"]).name != self._name:
            return f"{place['path']}:{place['line']}"
        line: int = place["line"]
        return next((first for _, first, last in self._statements if first <= line <= last), line)


def _finding(truth: Mapping[str, Any], finding: Mapping[str, Any], lines: _Lines) -> Iterator[Problem]:
    code = finding["code"]
    if code.startswith("UC2"):
        yield from _place("saved", finding.get("saved"), [truth.get("created_line")], lines, optional=True)
    else:
        saved = [truth.get("saved_line"), *truth.get("saved_line_alt", ())]
        yield from _place("saved", finding.get("saved"), saved, lines)
        yield from _place("needed", finding.get("needed"), [truth.get("needed_line")], lines)
        yield from _place("freed", finding.get("freed"), [truth.get("freed_line")], lines)
    yield from _writes(truth, finding, lines)
    if code == "UC101":
        yield from _harmless(truth, finding)


def _place(
    name: str,
    place: Mapping[str, Any] | None,
    expected: Iterable[int | None],
    lines: _Lines,
    *,
    optional: bool = False,
) -> Iterator[Problem]:
    known = [line for line in expected if line is not None]
    if not known:
        return
    if place is None:
        if not optional:
            yield Problem("missed", name, f"no place, expected line {_or(known)}")
    elif (line := lines.statement(place)) not in known:
        yield Problem("wrong", name, f"{line}, expected line {_or(known)}")


def _writes(truth: Mapping[str, Any], finding: Mapping[str, Any], lines: _Lines) -> Iterator[Problem]:
    expected = truth.get("write_lines") or []
    allowed = {*expected, *truth.get("also_offending_lines", ())}
    reported = [lines.statement(write) for write in finding.get("writes", ())]
    for line in dict.fromkeys(reported):
        if line not in allowed:
            yield Problem("wrong", "writes", f"{line}, expected lines {_or(allowed) or 'none'}")
    if expected and not set(expected) & set(reported):
        yield Problem("missed", "writes", f"none of lines {_or(expected)}")


def _harmless(truth: Mapping[str, Any], finding: Mapping[str, Any]) -> Iterator[Problem]:
    if truth.get("false_positive"):
        kind = truth.get("fp_kind")
        expected = HARMLESS[kind] if kind is not None else None
    else:
        expected = None if truth.get("grad_unaffected") else False
    if expected is not None and finding["harmless"] is not expected:
        kind = "wrong" if finding["harmless"] else "missed"
        yield Problem(kind, "harmless", f"{finding['harmless']}, expected {expected}")


def _or(values: Iterable[object]) -> str:
    return " or ".join(sorted(map(str, values)))
