"""Made scripts: what ``fix`` calls proved does the same from beginning to end, printed and written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from grammar.training import HOLDERS, PAIRS, STATES, WRITES, saved_overwritten, scripts
from repair.script_runs import DIFFERENT, RIGHT, UNFIT, UNFIXED, Desk, Done, check, desk, judged, run
from unclobber.model import Finding
from unclobber.repair import rounds
from unclobber.repair.outcome import Clean, Proof, Proved, Repair
from unclobber.repair.project import Project

QUICK, MANY = 20, 500
SAMPLE = {script.family: script for script in reversed(list(scripts(QUICK)))}
"""The first of each family."""
STRETCH = 10
"""Scripts that one test of the sweep goes through."""


@pytest.fixture(scope="module")
def at(tmp_path_factory, driver) -> Iterator[Desk]:
    """One folder for the scripts of this file."""
    here = os.getcwd()
    driver.timeout = driver.seconds_to_end = 60.0
    with desk(tmp_path_factory.mktemp("scripts"), driver) as found:
        os.chdir(here)
        yield found


@pytest.fixture(autouse=True)
def in_its_folder(at, monkeypatch) -> None:
    """The command is run in the project's folder."""
    monkeypatch.chdir(at.folder)


@pytest.mark.parametrize("script", SAMPLE.values(), ids=lambda script: script.name)
def test_sampled(script, at):
    """A seeded one of all families: each is found and cured, and then does what it should."""
    verdict = check(script, at)
    assert verdict.result in (RIGHT, UNFIXED), verdict
    assert verdict.result == RIGHT or script.parts in UNFIXED_OF_THE_SAMPLE, verdict


UNFIXED_OF_THE_SAMPLE: frozenset[str] = frozenset()
"""What has no fixer that keeps everything."""


@pytest.mark.sweep
@pytest.mark.timeout(900)  # ten scripts take minutes where the machine is busy
@pytest.mark.parametrize("first", range(0, MANY, STRETCH))
def test_many(first, at):
    """None does something else; most are fixed."""
    verdicts = {script.name: check(script, at) for script in list(scripts(first + STRETCH))[first:]}
    wrong = {name: one for name, one in verdicts.items() if one.result not in (RIGHT, UNFIXED)}
    assert not wrong
    assert sum(one.result == RIGHT for one in verdicts.values()) >= 0.75 * STRETCH, verdicts


def test_the_scripts_differ_and_cover_everything():
    """No two the same, and every part is used by the many."""
    made = list(scripts(MANY))
    assert len({script.text for script in made}) == MANY
    parts = "\n".join(script.parts for script in made)
    assert {script.family for script in made} == {"UC101", "UC102", "UC301", *PAIRS}
    for name in (*HOLDERS, *WRITES, *STATES):
        assert name in parts
    assert [script.text for script in scripts(9)] == [script.text for script in made[:9]]


# --- the check itself ------------------------------------------------------------------------------

ALIAS = saved_overwritten("tanh", "another name", "h *= 2")
CURED = ALIAS.text.replace("torch.tanh(net(x))", "torch.tanh(net(x)).clone()")


def _claimed(at: Desk, text: str) -> rounds.Rounds:
    """Rounds that claim a proof for another text."""
    finding = Finding(ALIAS.family, "a message")
    repair = Repair(("a planted cure",), ("planted",), {str(at.path): text}, Proof("as written", 1, 1))
    project = Project(str(at.folder))
    project.encoded(str(at.path))
    return rounds.Rounds((Proved(finding, (repair,)), Clean()), project.with_texts(repair.texts))


@pytest.mark.parametrize(
    ("planted", "result", "said"),
    [
        (CURED, RIGHT, ""),
        (ALIAS.text.replace("h *= 2", "h = h * 2"), DIFFERENT, "prints"),
        (CURED.replace("kept = h", "kept = h.clone()"), DIFFERENT, "prints"),
        (CURED.replace("kept = h", "kept = nothing"), DIFFERENT, "it fails: NameError"),
        (CURED.replace("out.txt", "other.txt"), DIFFERENT, "writes other files"),
        (CURED + "print(1)\n", DIFFERENT, "prints more or less"),
    ],
)
def test_the_check_can_say_no(at, planted, result, said):
    """A right fixer beside others: an alias that keeps the old values, a crash, other files, other words."""
    truth = run(at, ALIAS.text, guarded=True)
    assert truth.code == 0, truth.err
    at.path.write_text(ALIAS.text)
    verdict = judged(ALIAS, _claimed(at, planted), truth, at)
    assert verdict.result == result
    assert said in verdict.detail


@pytest.mark.parametrize(
    "script",
    [replace(ALIAS, text=CURED), replace(ALIAS, family="UC102"), replace(ALIAS, twin="raise ValueError\n")],
    ids=["nothing to find", "another family", "no truth"],
)
def test_a_script_that_is_no_test_is_told(script, at):
    """It is neither right nor different."""
    assert check(script, at).result == UNFIT


def test_the_driver_sees_each_script_anew(at):
    """Scripts follow each other in one place; nothing of the one before is left."""
    assert run(at, ALIAS.text, guarded=True).files != ()
    assert run(at, "print(1)\n") == Done(0, "1\n", (), "")
