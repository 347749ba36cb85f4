"""Several ranks' reports become one; the world is read from a launcher's variables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unclobber.cli._program import ProgramEnd
from unclobber.cli._records import ProcessRecord
from unclobber.cli.ranks._gather import merge_ranks
from unclobber.cli.ranks._world import World
from unclobber.model import Finding, Need, RankEnd, Report, Save, Site, Totals, Write


def site(line: int) -> Site:
    return Site("/train.py", line, 1, line, 4, "step", "y()", line, line, "y()")


def finding(line: int = 4, *, shape: tuple[int, ...] = (3,), name: str | None = None) -> Finding:
    return Finding(
        "UC101",
        f"a {shape} tensor was overwritten",
        saved=Save(site(3), shape, "float32", 12, 0, name=name),
        writes=(Write(site(line), "add_", True, True, 0, 1),),
        needed=Need(site(5), nth=shape[0]),
        torch_message="modified by an inplace operation",
    )


def ended(rank: int, *findings: Finding, code: int = 0, ending: ProgramEnd | None = None) -> ProcessRecord:
    outcome = "refused" if findings else "clean"
    report = Report(outcome, findings, Totals(saves=10, writes=2), exit_code=code)
    return ProcessRecord(rank, "ended", report, ending or ProgramEnd(code))


def merged(*records: ProcessRecord) -> Report:
    return merge_ranks(records, torch_version="2.13.0", command=("train.py",))


def test_the_same_places_are_one_finding():
    """Sizes and the number of the backward may differ between ranks; the lowest rank's are told."""
    report = merged(ended(0, finding(shape=(3,)), code=1), ended(1, finding(shape=(4,)), code=1))
    assert report.findings == (replace(finding(shape=(3,)), ranks=(0, 1)),)
    assert report.totals == Totals(saves=20, writes=4)


@pytest.mark.parametrize(
    "other",
    [
        finding(9),
        finding(name="layers.1.weight"),
        replace(finding(), code="UC102"),
        replace(finding(), repaired=True),
    ],
    ids=["another line", "another parameter", "another code", "repaired"],
)
def test_others_are_told_apart(other):
    """Each has its own rank."""
    report = merged(ended(0, finding()), ended(1, other))
    assert [one.ranks for one in report.findings] == [(0,), (1,)]


def test_a_finding_twice_on_one_rank():
    """It is one finding of that rank."""
    assert [one.ranks for one in merged(ended(2, finding(), finding())).findings] == [(2,)]


def test_the_worst_outcome_and_the_first_code():
    """One rank of four is enough."""
    records = [ended(0), ended(1, code=7), ended(2, finding(), code=1), ended(3)]
    report = merged(*records)
    assert (report.outcome, report.exit_code) == ("refused", 7)
    assert merged(ended(0), ended(1)).outcome == "clean"


def test_ranks_without_a_report():
    """What they wrote down until then counts."""
    report = merged(
        ended(0),
        ProcessRecord(1, "died", so_far=(finding(),)),
        ProcessRecord(2, "running"),
        ProcessRecord(3, "absent"),
    )
    assert [one.ranks for one in report.findings] == [(1,)]
    assert report.outcome == "refused"
    assert report.ranks == (
        RankEnd(0, "ended", 0, "clean"),
        RankEnd(1, "died", None, "refused"),
        RankEnd(2, "running"),
        RankEnd(3, "absent"),
    )


def test_how_a_rank_ended():
    """A failure of its own and SIGTERM are not the same."""
    failed = ended(0, code=1, ending=ProgramEnd(1, failed=True))
    killed = ended(1, code=143, ending=ProgramEnd(143, failed=True, terminated=True))
    assert [end.state for end in merged(failed, killed).ranks] == ["failed", "terminated"]


HERE = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "1"}


def test_the_ranks_of_this_machine():
    """Those whose directory can be shared; the run's name is the same for each of them."""
    one, other = World.of(HERE), World.of({**HERE, "RANK": "4", "LOCAL_RANK": "0"})
    assert (one.rank, one.expected, other.expected) == (5, (4, 5), (4, 5))
    assert one.run == other.run
    assert not one.elastic


@pytest.mark.parametrize("name", ["TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"])
def test_another_run_has_another_name(name):
    """Another port, another id, a restart."""
    assert World.of({**HERE, name: "other"}).run != World.of(HERE).run


@pytest.mark.parametrize(
    "changed",
    [{"WORLD_SIZE": "1", "RANK": "0"}, {"RANK": ""}, {"WORLD_SIZE": "x"}, {"RANK": "8"}],
    ids=["a world of one", "no rank", "no size", "a rank outside"],
)
def test_a_process_that_is_alone(changed):
    """Variables of one process, or that make no sense, change nothing."""
    assert World.of({**HERE, **changed}) is None
