"""The example for several ranks does what it says, run by ``torchrun``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_examples import EXAMPLES, ROOT, shell


@pytest.mark.timeout(180)
def test_two_ranks():
    """The command in the table of examples: both ranks' finding is told once, by one of them."""
    (command,) = re.findall(r"`(torchrun [^`]*)`", (EXAMPLES / "README.md").read_text())
    done = shell(f"OMP_NUM_THREADS=1 {command}", Path(ROOT))
    assert done.returncode == 1
    assert done.stderr.count("error[UC101]") == 1
    assert "= note: found on ranks 0 and 1\n" in done.stderr
    place = "examples/data_parallel.py:{}"
    summary = f"UC101 saved-overwritten {place.format(9)} overwrites what {place.format(8)} saved"
    lines = done.stderr.splitlines()
    assert lines.count(f"SUMMARY: {summary}") == 1
    assert {f"[rank{rank}]: stopped by {summary}" for rank in range(2)} <= set(lines)
    assert "[rank0]: Traceback" not in done.stderr
