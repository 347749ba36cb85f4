"""From an ending and findings to an exit code and guard's line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unclobber.cli._delivery import unrepaired
from unclobber.cli._program import ProgramEnd
from unclobber.cli.run import complete
from unclobber.model import Finding, Need, Report, Totals
from unclobber.report import guard_lines

FOUND = Finding("UC101", "`y` was overwritten")
CAST = Finding("UC106", "m", repaired=True)
REPAIRED = replace(FOUND, repaired=True)
REFUSED = Finding("UC301", "backward had freed the graph")


@pytest.mark.parametrize(
    ("ending", "findings", "expected", "with_exit_zero"),
    [
        pytest.param(ProgramEnd(), (), 0, 0, id="clean"),
        pytest.param(ProgramEnd(), (FOUND,), 1, 0, id="found"),
        pytest.param(ProgramEnd(), (REPAIRED,), 0, 0, id="repaired"),
        pytest.param(ProgramEnd(), (REPAIRED, FOUND), 1, 0, id="not all repaired"),
        pytest.param(ProgramEnd(1, refused=True), (FOUND,), 1, 0, id="ended by a finding"),
        pytest.param(ProgramEnd(1, failed=True), (), 1, 1, id="own failure"),
        pytest.param(ProgramEnd(1, failed=True), (FOUND,), 1, 1, id="own failure after a finding"),
        pytest.param(ProgramEnd(7), (FOUND,), 7, 7, id="own code"),
        pytest.param(ProgramEnd(130, failed=True, interrupted=True), (FOUND,), 130, 130, id="interrupted"),
    ],
)
def test_exit_code(ending, findings, expected, with_exit_zero):
    """Findings make 1 of a 0 only, and ``--exit-zero`` takes back only that 1."""
    report = Report("clean", findings)
    assert complete(report, [], ending, exit_zero=False).exit_code == expected
    assert complete(report, [], ending, exit_zero=True).exit_code == with_exit_zero


def test_the_finding_that_ended_the_program_is_in_the_report():
    """Once, whether or not the session has kept it."""
    ending = ProgramEnd(1, refused=True)
    assert complete(Report("refused"), [FOUND], ending, exit_zero=False).findings == (FOUND,)
    assert complete(Report("refused", (FOUND,)), [FOUND], ending, exit_zero=False).findings == (FOUND,)
    again = replace(FOUND, needed=Need(None, nth=2), message="the same, met for the second time")
    first = replace(FOUND, needed=Need(None, nth=1))
    assert complete(Report("refused", (first,)), [again], ending, exit_zero=False).findings == (first,)


def test_unrepaired():
    """What guard has put right is left out."""
    assert unrepaired(Report("silent", (REPAIRED, FOUND))) == (FOUND,)


@pytest.mark.parametrize(
    ("findings", "conflicts", "kept", "expected"),
    [
        ((REPAIRED,), 1, 1, "1 overwritten value restored (1 place), 1 byte kept at peak"),
        ((REPAIRED,), 18, 1234, "18 overwritten values restored (1 place), 1.2 KiB kept at peak"),
        ((REPAIRED,) * 2, 5, 1024**2 - 1, "5 overwritten values restored (2 places), 1.0 MiB kept at peak"),
        (
            (REPAIRED, FOUND),
            9,
            5000 * 1024**4,
            "overwritten values restored at 1 of 2 places, 5000.0 TiB kept at peak",
        ),
        ((CAST,), 1, 0, "nothing had to be restored, nothing was kept"),
        ((CAST, REPAIRED), 2, 8, "1 overwritten value restored (1 place), 8 bytes kept at peak"),
        ((FOUND,), 1, 0, "overwritten values restored at 0 of 1 place, nothing kept"),
        ((REFUSED, REPAIRED), 1, 8, "1 overwritten value restored (1 place), 8 bytes kept at peak"),
        ((REFUSED,), 0, 0, "nothing had to be restored, nothing was kept"),
        ((), 0, 8, "nothing had to be restored (8 bytes kept in case)"),
    ],
)
def test_guard_line(findings, conflicts, kept, expected):
    """The line counts the values that were given back, the places in the source, and the bytes."""
    report = Report("clean", findings, Totals(conflicts=conflicts, kept_bytes=kept))
    assert guard_lines(report)[0] == f"guard: {expected}"
