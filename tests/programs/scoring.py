"""Compare what the command reported about a program with what is known to be true.

``truth`` is what the program's marks say, ``report`` the JSON of ``unclobber run --format json``. Saying
nothing where something is wrong is a miss; saying something untrue is worse, and kept apart.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from programs.marks import Truth

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
    "yes": None,
}
"""By why torch refuses in vain: whether no element that the derivative needs was changed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One difference; ``wrong`` is a false statement, ``missed`` an absent one."""

    kind: Literal["missed", "wrong"]
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.place}: {self.text}"


def score(truth: Truth, report: Mapping[str, Any], source: str, name: str) -> list[Problem]:
    """Every difference between a report and the truth; none for a full hit.

    Args:
        truth: What the program's marks say.
        report: The command's JSON.
        source: The program's text: a reported line counts as the first line of its statement.
        name: The program's file name: places in other files are wrong.
    """
    codes = truth.codes
    findings = report["findings"]
    if codes is None:
        return []
    if not codes:
        return [Problem("wrong", "code", f"{f['code']} for an allowed program") for f in findings]
    # The marks speak of what is refused first; what is told ahead of that, `property` holds against torch.
    findings = [f for f in findings if not f.get("ahead")]
    problems = [
        Problem("wrong", "code", f"{f['code']}, expected {_or(codes)}")
        for f in findings
        if f["code"] not in codes
    ]
    matching = [f for f in findings if f["code"] in codes]
    if not matching:
        return [*problems, Problem("missed", "code", f"no {_or(codes)}")]
    if len(matching) > 1 and "findings" not in truth.facts:
        problems.append(Problem("wrong", "findings", f"{len(matching)}, expected 1"))
    # Several findings of the right code: the best one counts, false statements of any one do too.
    lines = _Lines(source, name)
    truth = Truth(codes, {word: lines.first(marked) for word, marked in truth.lines.items()}, truth.facts)
    scored = [list(_finding(truth, f, lines)) for f in matching]
    best = min(scored, key=len)
    problems += best
    problems += [p for one in scored if one is not best for p in one if p.kind == "wrong"]
    return problems


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
        return self.first((place["line"],))[0]

    def first(self, lines: Iterable[int]) -> tuple[int, ...]:
        """The first lines of the innermost statements around some lines."""
        return tuple(
            next((first for _, first, last in self._statements if first <= line <= last), line)
            for line in lines
        )

    def calls(self, place: Mapping[str, Any]) -> set[int | str]:
        """The program's statements that called what ends at a place, the place itself included."""
        frames = [frame for frame in place["stack"] if PurePath(frame["path"]).name == self._name]
        return {self.statement(frame) for frame in frames}


def _finding(truth: Truth, finding: Mapping[str, Any], lines: _Lines) -> Iterator[Problem]:
    code = finding["code"]
    for word, place in places(finding).items():
        yield from _place(truth, word, place, lines)
    yield from _writes(truth, finding, lines)
    if code == "UC101":
        yield from _harmless(truth, finding)
    yield from _words(truth, finding)


def places(finding: Mapping[str, Any]) -> dict[str, Mapping[str, Any] | None]:
    """A finding's places but its writes, by the word that marks them.

    What was made is the first place of a refusal at the write, and the second one where the refusal is of
    the save (an inference tensor).
    """
    words = {"needed": finding["needed"], "freed": finding["freed"]}
    saves = finding["code"] == "UC206" and not finding["writes"] and finding["needed"] is None
    if finding["code"].startswith("UC2") and not saves:
        return {"made": finding["saved"], "saved": None, **words}
    return {"made": finding["made"] if saves else None, "saved": finding["saved"], **words}


def _place(truth: Truth, word: str, place: Mapping[str, Any] | None, lines: _Lines) -> Iterator[Problem]:
    if word in truth.listed("open"):
        return
    surely, perhaps = truth.at(word), truth.at(f"{word}?")
    known = place is not None and place["line"] is not None
    if not known:
        if surely:
            yield Problem("missed", word, f"no place, expected line {_or(surely)}")
        return
    assert place is not None
    if (line := lines.statement(place)) not in (*surely, *perhaps):
        yield Problem("wrong", word, f"{line}, expected {_wanted((*surely, *perhaps))}")
    elif line in surely:
        yield from _calls(truth, word, place, lines)


def _writes(truth: Truth, finding: Mapping[str, Any], lines: _Lines) -> Iterator[Problem]:
    expected = truth.at("write")
    allowed = (*expected, *truth.at("write?"))
    written = [write for write in finding["writes"] if write["line"] is not None]
    reported = [lines.statement(write) for write in written]
    for line in dict.fromkeys(reported):
        if line not in allowed:
            yield Problem("wrong", "writes", f"{line}, expected {_wanted(allowed)}")
    left = set(expected) - set(reported)
    if left and ("write" not in truth.listed("any") or left == set(expected)):
        yield Problem("missed", "writes", f"not line {_or(left)}")
    for line, write in zip(reported, written, strict=True):
        if line in expected:
            yield from _calls(truth, "write", write, lines)


def _calls(truth: Truth, word: str, place: Mapping[str, Any], lines: _Lines) -> Iterator[Problem]:
    """The program's lines on the way to a place, where they are marked."""
    marked = truth.at(f">{word}")
    if marked and (others := lines.calls(place) - {*marked, *truth.at(word)}):
        yield Problem("wrong", f"calls of {word}", f"{_or(others)}, expected {_wanted(marked)}")


def _harmless(truth: Truth, finding: Mapping[str, Any]) -> Iterator[Problem]:
    if "vain" in truth.facts:
        expected = HARMLESS[truth.facts["vain"]]
    else:
        expected = None if truth.facts.get("gradient") == "unaffected" else False
    if expected is not None and finding["harmless"] is not expected:
        kind: Literal["missed", "wrong"] = "wrong" if finding["harmless"] else "missed"
        yield Problem(kind, "harmless", f"{finding['harmless']}, expected {expected}")


def _words(truth: Truth, finding: Mapping[str, Any]) -> Iterator[Problem]:
    """How the message begins, and the code that is advised first."""
    says, advice = truth.facts.get("says"), truth.facts.get("advice")
    if says is not None and not finding["message"].startswith(says):
        yield Problem("wrong", "message", f"{finding['message']!r}, expected {says!r}")
    if advice is not None:
        code = finding["fixes"][0]["code"] if finding["fixes"] else None
        if code != (None if advice == "none" else advice):
            yield Problem("wrong" if code else "missed", "advice", f"{code}, expected {advice}")


def _wanted(values: Iterable[object]) -> str:
    values = list(values)
    return f"line {_or(values)}" if values else "no place"


def _or(values: Iterable[object]) -> str:
    return " or ".join(sorted(map(str, values)))
