"""What a report says of several ranks and of the run as a whole, in each format."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files

import jsonschema
import pytest
from rendered import render
from sample_findings import examples

from unclobber.model import ProcessEnd, RankEnd, Report
from unclobber.report._ranks import in_processes, on_ranks, remarks

NOTICE = "torch.compile made code of `step` (train.py:3)"
RANKS = (
    RankEnd(0, "terminated", 143, "script-error"),
    RankEnd(1, "ended", 1, "refused"),
    RankEnd(2, "failed", 3, "script-error"),
    RankEnd(3, "died"),
    RankEnd(4, "running"),
    RankEnd(5, "absent"),
)
FINDING = replace(examples()["plain"], ranks=(1, 2, 3))
REPORT = Report("refused", (FINDING,), exit_code=1, notices=(NOTICE,), ranks=RANKS)
SAID = [
    NOTICE,
    "rank 0 was ended by SIGTERM",
    "rank 2 failed (exit code 3), perhaps because a finding stopped rank 1",
    "rank 3 died without a report: what it had found until then is here",
    "rank 4 had not ended: what it had found until then is here",
    "rank 5 left no record: it was not watched, or had not begun",
]


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ((3,), "on rank 3"),
        ((0, 1), "on ranks 0 and 1"),
        ((0, 2, 4), "on ranks 0, 2 and 4"),
        (tuple(range(8)), "on ranks 0 to 7"),
        ((0, 1, 2, 3, 6, 7), "on ranks 0 to 3, 6 and 7"),
    ],
)
def test_ranks_in_words(ranks, words):
    """Three neighbours and more are a range."""
    assert on_ranks(ranks) == words


def test_remarks():
    """Each rank that did not end as a program does, in one sentence; the others are not spoken of."""
    assert remarks(REPORT) == SAID


def test_ranks_that_ended_alike_are_one_remark():
    """One finding may end thousands of ranks."""
    ranks = [RankEnd(0, "ended", 1, "refused"), *(RankEnd(n, "terminated", 143) for n in range(1, 10_000))]
    ranks[7], ranks[9] = RankEnd(7, "absent"), RankEnd(9, "absent")
    ranks[20:23] = [RankEnd(n, "failed", 3) for n in range(20, 23)]
    assert remarks(replace(REPORT, ranks=tuple(ranks)))[1:] == [
        "ranks 1 to 6, 8, 10 to 19 and 23 to 9999 were ended by SIGTERM",
        "ranks 7 and 9 left no record: they were not watched, or had not begun",
        "ranks 20 to 22 failed (exit code 3), perhaps because a finding stopped rank 0",
    ]


def test_a_rank_that_failed_alone():
    """Where no finding stopped another rank, what failed did so by itself."""
    alone = replace(REPORT, ranks=(RankEnd(0, "ended", 0, "clean"), RankEnd(1, "failed", 3, "script-error")))
    assert remarks(alone)[1:] == ["rank 1 failed for reasons of its own (exit code 3)"]


def test_text():
    """The ranks are the story's first note; the remarks stand before the summary, the last line."""
    lines = render(REPORT, "text").splitlines()
    assert next(line for line in lines if "= note:" in line).endswith("= note: found on ranks 1 to 3")
    assert [line.removeprefix("note: ") for line in lines if line.startswith("note: ")] == SAID
    assert lines[-1].startswith("SUMMARY: UC101 ")


def test_text_without_findings():
    """Remarks of a clean run follow its one line."""
    report = Report("clean", notices=(NOTICE,))
    assert render(report, "text") == f"no findings: 0 saves, 0 writes to saved memory\nnote: {NOTICE}"


def test_json():
    """The fields stand at the end, and the schema knows them."""
    document = json.loads(render(REPORT, "json"))
    schema = json.loads((files("unclobber.report") / "schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    assert list(document)[-5:-2] == ["notices", "ranks", "processes"]
    assert list(document["findings"][0])[-7:] == [
        "ranks", "processes", "made", "ahead", "times", "confidence", "also",
    ]  # fmt: skip
    assert document["notices"] == [NOTICE]
    assert document["ranks"][3] == {"rank": 3, "state": "died", "exit_code": None, "outcome": None}


def test_sarif():
    """Ranks are a property of the result, remarks notifications of the tool."""
    (run,) = json.loads(render(REPORT, "sarif"))["runs"]
    assert run["results"][0]["properties"]["ranks"] == [1, 2, 3]
    told = run["invocations"][0]["toolExecutionNotifications"]
    assert [one["message"]["text"] for one in told] == SAID


def test_github():
    """Remarks are notices of the job."""
    lines = render(REPORT, "github").splitlines()
    assert "note: found on ranks 1 to 3" in lines[0]
    assert [line.partition("::notice title=unclobber::")[2] for line in lines[1:]] == SAID


def test_html():
    """Both are on the page."""
    page = render(REPORT, "html")
    assert "found on ranks 1 to 3" in page
    assert all(text.replace("`", "").split(" (")[0] in page.replace("`", "") for text in SAID)


CHILDREN = Report(
    "refused",
    (replace(examples()["plain"], processes=("MainProcess", "Process-1", "loss")),),
    exit_code=1,
    processes=(
        ProcessEnd("Process-1", 11, "ended", 1, "refused"),
        ProcessEnd("loss", 12, "failed", 3, "script-error"),
        ProcessEnd("late", 13, "running"),
        ProcessEnd("gone", 14, "died"),
        ProcessEnd("pool", 15, "died", daemon=True),
    ),
)
OF_CHILDREN = [
    "process loss failed for reasons of its own (exit code 3)",
    "process late had not ended: what it had found until then is here",
    "process gone was killed or left by os._exit: what it had found until then is here",
]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["MainProcess"], ""),
        (["Process-1"], "in process Process-1"),
        (list("abcdefgh"), "in 8 processes: a, b, c, d and 4 more"),
    ],
)
def test_processes_in_words(names, said):
    """The program's own, alone, needs no name; of many some are named."""
    assert in_processes(names) == said


def test_children_in_each_format():
    """Who found it is the story's first note; what a daemon is ended by is not spoken of."""
    assert remarks(CHILDREN) == OF_CHILDREN
    where = "found in 3 processes: MainProcess, Process-1 and loss"
    for name in ("text", "github", "html", "sarif"):
        assert where in render(CHILDREN, name), name
    (run,) = json.loads(render(CHILDREN, "sarif"))["runs"]
    assert run["results"][0]["properties"]["processes"] == ["MainProcess", "Process-1", "loss"]


def test_children_in_json():
    """The schema knows them."""
    document = json.loads(render(CHILDREN, "json"))
    schema = json.loads((files("unclobber.report") / "schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    assert document["findings"][0]["processes"] == ["MainProcess", "Process-1", "loss"]
    assert document["processes"][4] == {
        "name": "pool",
        "pid": 15,
        "state": "died",
        "exit_code": None,
        "outcome": None,
        "daemon": True,
    }
