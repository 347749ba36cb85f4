"""What runs in threads of the engine's own, as backward on a GPU does, is found and guarded all the same."""

import re
import subprocess
import sys
from pathlib import Path


def test_in_a_process_of_its_own():
    """All tests of the file pass, a program each."""
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    command = [sys.executable, "-m", "pytest", *options, str(Path(__file__).with_name("_engine_threads.py"))]
    done = subprocess.run(command, capture_output=True, text=True)
    passed = re.search(r"(\d+) passed in", done.stdout)
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(passed[1]) > 20
