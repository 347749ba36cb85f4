"""What runs on a device's own thread in backward, on a device without hardware."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = ("test_in_backward_device.py", "test_watch_device.py::test_torchs_own_sentence")


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """The tests of the device, on that one."""
    given = {"UNCLOBBER_TEST_DEVICE": "pretended", "PYTHONPATH": str(HERE / "pretended")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pretended_device", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *options, *TESTS],
        cwd=HERE.parent / "gpu",
        capture_output=True,
        text=True,
        env={**os.environ, **given},
    )


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("native", ["0", "1"])
def test_as_on_the_cpu(native, monkeypatch):
    monkeypatch.setenv("UNCLOBBER_NATIVE", native)
    done = run("-k", "not view_of_another_type and not instance_norm")  # it lacks kernels of theirs
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert int(passed[1]) > 100
