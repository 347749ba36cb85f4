"""What a run suppresses: options, and plain values for other processes."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from unclobber.cli._program import ProgramEnd
from unclobber.cli._suppression import RunSuppression
from unclobber.model import Finding, Report, Suppressed
from unclobber.settings import Baseline, ProjectSettings

SILENT = Finding("UC102", "`y` was overwritten")
REFUSED = Finding("UC101", "`y` was overwritten", torch_message="one of the variables ...")


def of(baseline, select=(), ignore=()):
    return RunSuppression(ProjectSettings().under(select=select, ignore=ignore), baseline)


@pytest.fixture
def known(tmp_path):
    """A baseline that knows the silent finding once."""
    path = tmp_path / "known.json"
    path.write_text(Baseline.of([SILENT], str(path)).text())
    return str(path)


def test_it_is_sent_by_pickle(known):
    """What a child gets makes the same suppression."""
    sent = pickle.dumps(of(select=("UC1", "UC2", "UC3"), ignore=("UC105",), baseline=known))
    suppression = pickle.loads(sent).suppression()
    assert (suppression.settings.select, suppression.settings.ignore) == (("UC1", "UC2", "UC3"), ("UC105",))
    assert suppression.lets_pass(SILENT)
    assert not suppression.lets_pass(REFUSED)


def test_what_is_known_leaves_the_findings(known):
    """As often as it is known; what torch refuses stays, and so does what ended the program."""
    report = Report("refused", (SILENT, REFUSED))
    left = of(baseline=known).without_known(report, (), failed=False)
    assert (left.outcome, left.findings, left.suppressed) == (
        "refused", (REFUSED,), (Suppressed(SILENT, "baseline"),),
    )  # fmt: skip
    twice = Report("silent", (SILENT, replace(SILENT, message="again")))
    assert len(of(baseline=known).without_known(twice, (), failed=False).findings) == 1
    assert of(baseline=known).without_known(Report("silent", (SILENT,)), [SILENT], failed=False).findings
    failed = of(baseline=known).without_known(Report("silent", (SILENT,)), (), failed=True)
    assert failed.outcome == "script-error"


def test_nothing_is_said_of_what_was_not_reached(known):
    """Where the program did not come to its end, the baseline may know what was to come."""
    idle = "1 entry of the baseline met no finding in this run"
    assert of(baseline=known).finished(Report("clean"), (), ProgramEnd()).notices == (idle,)
    for ending in (ProgramEnd(1, failed=True), ProgramEnd(1, refused=True)):
        assert of(baseline=known).finished(Report("clean"), (), ending).notices == ()
