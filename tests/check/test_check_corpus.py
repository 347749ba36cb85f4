"""How much of the corpus a check finds: programs that went wrong in real life, their repaired twins, and
programs that are allowed. The numbers are floors: to find less is a loss."""

from __future__ import annotations

from collections import Counter

import pytest

from checked_text import check_text
from programs.running import find_cases
from unclobber.static._rules import CheckRule

CASES = find_cases()
REAL = [case for case in CASES if "source" in case.truth.facts]
FLOORS = {"UC101": 20, "UC201": 15, "UC202": 12, "UC203": 30, "UC204": 16, "UC205": 6, "UC301": 17}


def lines_of(path, text):
    """Lines that are blamed, with the confidence."""
    found = check_text(text, str(path))
    places = [(one, one.writes[0].site if one.writes else one.needed.site) for one in found]
    return [(site.line, one.confidence) for one, site in places]


def is_found(case):
    """Whether one of the lines that it is about is blamed."""
    places = ("write", "write?", "raises", "needed", "saved", "made")
    true = {line for place in places for line in case.truth.at(place)}
    return any(line in true for line, _ in lines_of(case.path, case.text))


def test_floors():
    """By code, with the rules that are told without being asked for."""
    found = Counter(case.path.parent.name for case in CASES if is_found(case))
    assert {code: found[code] for code in FLOORS} == {
        code: max(floor, found[code]) for code, floor in FLOORS.items()
    }


def test_real_programs():
    """At least seven of ten faults that were met in the wild, of the codes that a rule can find."""
    known = {rule.value.code for rule in CheckRule}
    faults = [case for case in REAL if case.path.parent.name in known]
    assert len(faults) > 30
    assert sum(map(is_found, faults)) >= 0.7 * len(faults)


@pytest.mark.parametrize("case", [case for case in CASES if case.fixed.exists()], ids=lambda case: case.name)
def test_repaired_twins(case):
    """`check` finds nothing in the repaired twin of a program."""
    assert lines_of(case.fixed, case.fixed.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.path.parent.name == "allowed"], ids=lambda case: case.name
)
def test_allowed_programs(case):
    """`check` finds nothing in a program that torch allows."""
    assert lines_of(case.path, case.text) == []
