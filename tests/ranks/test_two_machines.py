"""Two machines that share no folder: the first one reports for both, through the store of ``torchrun``."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest
from beginning import BEGIN

from unclobber.cli.ranks import _machines
from unclobber.cli.ranks._machines import Machines, merge_machines
from unclobber.model import Finding, RankEnd, Report, Site, Totals, Write
from unclobber.report import FORMATS, RenderOptions
from unclobber.report._ranks import remarks

BODY = """
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    y.data.mul_(2)
    if rank == 1:
        z = w.exp()
        z.data.mul_(2)
        z.sum().backward()
    y.sum().backward()
    if rank == 0:
        z = w.exp()
        z.add_(1)
        try:
            z.sum().backward()
        except RuntimeError:
            pass
    dist.barrier()
"""


def test_the_first_machine_reports_for_both(tmp_path):
    (tmp_path / "train.py").write_text(BEGIN + textwrap.dedent(BODY))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    run = ["torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--master-port", port]
    machines = []
    for number in (0, 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        words = [
            *run,
            "--master-addr",
            "127.0.0.1",
            "--node-rank",
            str(number),
            "-m",
            "unclobber",
            "run",
            "train.py",
        ]
        machines.append(
            subprocess.Popen(
                [sys.executable, "-m", *words],
                cwd=tmp_path,
                env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    first, second = (machine.communicate(timeout=120)[1] for machine in machines)
    assert first.count("error[UC102]") == 2
    assert "found on ranks 0 and 1" in first
    assert "found on rank 1" in first
    assert first.count("error[UC101]") == first.count("found on rank 0\n") == 1
    assert "error[" not in second


ENVIRONMENT = {
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "here",
    "MASTER_PORT": "7",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_RUN_ID": "one",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}


def test_torchrun_says_which_machine_this_is():
    assert Machines.of(ENVIRONMENT) == Machines(1, 2, 4, "here", 7, "unclobber/one/0")


@pytest.mark.parametrize(
    "change",
    [{"GROUP_WORLD_SIZE": "1"}, {"TORCHELASTIC_USE_AGENT_STORE": "False"}, {"MASTER_PORT": "?"}],
    ids=["one machine", "no store", "no port"],
)
def test_machines_that_cannot_meet(change):
    assert Machines.of({**ENVIRONMENT, **change}) is None


def machine(first: int, code: str, message: str, exit_code: int = 1) -> Report:
    """The report of a machine with two ranks, both of which have one finding, three times in all."""
    finding = Finding(code, message, times=3, ranks=(first, first + 1))
    ends = tuple(RankEnd(rank, "ended", exit_code, "refused") for rank in finding.ranks)
    return Report("refused", (finding,), totals=Totals(4, 3, 2, 1), exit_code=exit_code, ranks=ends)


def test_what_both_have_is_one_finding():
    whole = merge_machines({0: machine(0, "UC201", "same"), 1: machine(2, "UC201", "same")}, range(2), 2)
    (finding,) = whole.findings
    assert (finding.ranks, finding.times) == ((0, 1, 2, 3), 6)
    assert whole.totals == Totals(8, 6, 4, 2)
    assert [end.rank for end in whole.ranks] == [0, 1, 2, 3]


def test_a_machine_that_sends_nothing_is_named():
    whole = merge_machines({0: machine(0, "UC201", "own", exit_code=0)}, range(2), 2)
    assert [(end.rank, end.state) for end in whole.ranks[2:]] == [(2, "absent"), (3, "absent")]
    assert whole.exit_code == 0


def test_a_machine_sends_a_limited_number_of_findings(monkeypatch):
    monkeypatch.setattr(_machines, "_MOST_FINDINGS", 1)
    report = machine(2, "UC201", "first")
    other = Finding("UC202", "second", ranks=(3,))
    bounded = _machines._bounded(replace(report, findings=(*report.findings, other)))
    assert [finding.code for finding in bounded.findings] == ["UC201"]
    assert bounded.notices == ("left out: 1 more finding of the ranks 2 and 3",)
    assert _machines._bounded(report) is report


def test_the_report_of_ten_thousand_ranks_is_bounded(monkeypatch):
    """What all have found is there once, with its count, and so is the first of each code; a dead rank is
    named."""
    monkeypatch.setattr(_machines, "_MOST_FINDINGS", 20)
    machines = range(1250)

    def by(line: int) -> Write:
        return Write(
            Site("/train.py", line, 1, line, 4, "step", "y()", line, line, "y()"), "add_", True, True, 0, 1
        )

    def report_of(number: int) -> Report:
        ranks = range(8 * number, 8 * number + 8)
        everywhere = Finding("UC101", "of all", times=8, ranks=tuple(ranks))
        own = [Finding("UC102", "own", writes=(by(rank),), times=1, ranks=(rank,)) for rank in ranks]
        last = [Finding("UC105", "of the last", times=1, ranks=(9999,))] if 9999 in ranks else []
        ends = tuple(RankEnd(rank, "died" if rank == 4711 else "terminated", 143) for rank in ranks)
        return Report(
            "refused", (everywhere, *own, *last), notices=(f"by {number}",), exit_code=1, ranks=ends
        )

    reports = {number: report_of(number) for number in machines if number != 3}
    whole = merge_machines(reports, machines, 8)
    assert [finding.code for finding in whole.findings] == ["UC101", "UC102", "UC105"] + 17 * ["UC102"]
    first, last = whole.findings[0], whole.findings[2]
    assert (first.times, len(first.ranks), last.ranks) == (9992, 9992, (9999,))
    said = remarks(whole)
    assert said[20:] == [
        "left out: 9974 more findings of the ranks 0, 1, 2, 3 and 9996 more",
        "left out: 1229 more notices of the ranks 0, 1, 2, 3 and 9996 more",
        "ranks 0 to 23, 32 to 4710 and 4712 to 9999 were ended by SIGTERM",
        "ranks 24 to 31 left no record: they were not watched, or had not begun",
        "rank 4711 died without a report: what it had found until then is here",
    ]
    assert len(FORMATS["text"](whole, RenderOptions()).splitlines()) < 200
