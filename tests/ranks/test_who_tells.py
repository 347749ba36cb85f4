"""Who reports when ranks end in any order, and what SIGTERM does: processes without torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.timeout(60)

PROGRAM = """
import os, signal, sys, time
from unclobber.cli._program import ProgramEnd
from unclobber.cli.ranks import Ranks
from unclobber.cli.ranks import _gather
from unclobber.model import Finding, Report
_gather._AFTER_SUCCESS = _gather._AFTER_A_FAILURE = 2.0

rank = int(os.environ["RANK"])
ranks = Ranks.join()
found = []
def find(code, text):
    found.append(Finding(code, text))
    ranks.records.record(found[-1])
def tell(ending):
    whole = ranks.gather(Report("refused", tuple(found), exit_code=ending.exit_code), ending)
    if whole is not None:
        texts = [f"{one.message} {list(one.ranks)}" for one in whole.findings]
        print("report", texts, [end.state for end in whole.ranks], flush=True)
ranks.report_before_sigterm(tell)
find("UC201", f"found on {rank}")
print("ready", flush=True)
try:
    exec(sys.stdin.readline())
except SystemExit as exit_:
    print(exit_.code)
ranks.ended(())
tell(ProgramEnd(0))
"""


class Rank:
    """One started rank, which runs a line of Python when it is given one."""

    def __init__(self, rank: int, folder) -> None:
        environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": "7"}
        environment |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TMPDIR": str(folder)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout.readline() == "ready\n"

    def begin(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> tuple[int, str]:
        out, _ = self.process.communicate(timeout=30)
        return self.process.returncode, out


@pytest.fixture
def ranks(tmp_path):
    """Two ranks that wait for their lines."""
    started = [Rank(0, tmp_path), Rank(1, tmp_path)]
    yield started
    for rank in started:
        rank.process.kill()
        rank.process.communicate()


BOTH = "report ['found on 0 [0, 1]'] "


def test_both_end(ranks, tmp_path):
    """Rank 0 tells, the other is silent, and nothing is left in the temporary folder."""
    for rank in ranks:
        rank.begin("pass")
    assert [rank.end() for rank in ranks] == [(0, BOTH + "['ended', 'ended']\n"), (0, "")]
    assert list(tmp_path.iterdir()) == []


def test_rank_0_is_killed(ranks):
    """The last one to end tells, with what rank 0 had written down."""
    ranks[0].process.kill()
    ranks[0].end()
    ranks[1].begin("pass")
    assert ranks[1].end() == (0, BOTH + "['died', 'ended']\n")


def test_sigterm_in_c(ranks):
    """A main thread that is in C tells and ends by the signal."""
    ranks[1].begin("pass")
    assert ranks[1].end() == (0, "")
    ranks[0].begin(
        "import ctypes; c, m = ctypes.CDLL(None), bytes(64); c.pthread_mutex_lock(m); c.pthread_mutex_lock(m)"
    )
    ranks[0].process.send_signal(signal.SIGTERM)
    assert ranks[0].end() == (-signal.SIGTERM, BOTH + "['terminated', 'ended']\n")


def test_sigterm_of_the_program(ranks):
    """A program's own handler is called and decides; the report comes at the end that it chose."""
    ranks[1].begin("pass")
    ranks[1].end()
    own = (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit('own')); print('set', flush=True); time.sleep(30)"
    )
    ranks[0].begin(own)
    assert ranks[0].process.stdout.readline() == "set\n"
    ranks[0].process.send_signal(signal.SIGTERM)
    assert ranks[0].end() == (0, "own\n" + BOTH + "['ended', 'ended']\n")


def test_sigterm_of_a_child(ranks):
    """A forked child dies of it as it would, and its parent runs on."""
    ranks[1].begin("pass")
    ranks[1].end()
    ranks[0].begin(
        "p = os.fork(); p or time.sleep(30); os.kill(p, signal.SIGTERM); print(os.waitpid(p, 0)[1])"
    )
    assert ranks[0].end() == (0, f"{signal.SIGTERM.value}\n" + BOTH + "['ended', 'ended']\n")


def test_the_directory_is_gone(ranks, tmp_path):
    """A rank that can't meet the others reports by itself."""
    (folder,) = tmp_path.iterdir()
    ranks[1].begin(f"import shutil; shutil.rmtree({str(folder)!r})")
    assert ranks[1].end() == (0, "report ['found on 1 []'] []\n")


def test_what_the_others_find_later(ranks):
    """Rank 0 waits its time and tells; rank 1, which ends later with more, tells the whole again."""
    ranks[1].begin("time.sleep(3); find('UC202', 'later')")
    ranks[0].begin("pass")
    assert ranks[0].end() == (0, BOTH + "['ended', 'running']\n")
    whole = "report ['found on 0 [0, 1]', 'later [1]'] ['ended', 'ended']\n"
    assert ranks[1].end() == (0, whole)
