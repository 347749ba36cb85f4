"""Start programs on two ranks, as ``torchrun`` does, on the CPU with gloo."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from beginning import BEGIN

Torchrun = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def torchrun(tmp_path: Path) -> Torchrun:
    """Run the body of a program on two ranks under ``unclobber run`` with the given options."""

    def run(body: str, *options: str) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "train.py"
        script.write_text(BEGIN + textwrap.dedent(body), encoding="utf-8")
        words = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "unclobber", "run"]
        done = subprocess.run(
            [sys.executable, "-m", *words, *options, "train.py"],
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        # Up to 2.10 gloo says there whom it is connected to; two ranks at a time may say it in one line.
        lines = done.stdout.splitlines(keepends=True)
        done.stdout = "".join(line for line in lines if line.strip() and not line.startswith("[Gloo]"))
        return done

    return run
