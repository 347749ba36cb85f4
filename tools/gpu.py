"""Run what needs a GPU with the interpreter that runs this, and measure what watching costs there.

    python3 tools/gpu.py               # tests, then benchmarks/RESULTS-gpu.md
    python3 tools/gpu.py --only tests

Nothing is installed and nothing fetched: the torch that is there is the one that is tested, and the
package is this tree's. Exit code: 0 where all passed, 1 where a test failed, 2 where nothing could be run.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = {
    "torch": "torch", "rich": "rich", "click": "click", "jinja2": "jinja2",
    "yaml": "PyYAML", "platformdirs": "platformdirs", "pytest": "pytest", "hypothesis": "hypothesis",
}  # fmt: skip
"""Modules, and what they are called on an index."""


TESTS = ("tests/gpu", "tests/silent/test_triton.py")


def complaint(version: tuple[int, ...], has: Callable[[str], bool], cuda: Callable[[], bool]) -> str | None:
    """Why nothing can be run here, as one paragraph; None where it can.

    Args:
        version: Of Python.
        has: Whether a module can be imported.
        cuda: Whether torch sees a device.
    """
    if version < (3, 11):
        return (
            f"gpu: this is Python {version[0]}.{version[1]}, and unclobber needs 3.11 or newer: give PYTHON=…"
        )
    missing = [package for module, package in NEEDED.items() if not has(module)]
    if missing:
        return (
            f"gpu: {sys.executable} lacks {', '.join(missing)}. Install them there, or give another "
            "interpreter: make gpu PYTHON=/path/to/python3"
        )
    if not cuda():
        return "gpu: torch sees no CUDA device here, so nothing was run."
    return None


def has_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def has_device() -> bool:
    import torch

    return torch.cuda.is_available()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=("tests", "costs"), help="leave the other out")
    only = parser.parse_args().only
    why_not = complaint(sys.version_info[:2], has_module, has_device)
    if why_not is not None:
        print(why_not, file=sys.stderr)
        return 2
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    code = 0
    if only != "costs":
        # The project's options name plugins that need not be here, and a driver may have its own warnings.
        options = ["-o", "addopts=", "-W", "default", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", *options, "-ra", *TESTS]
        code = subprocess.run(command, cwd=ROOT, env=settings).returncode
    if only != "tests":
        command = [sys.executable, str(ROOT / "benchmarks" / "gpu.py")]
        code = max(code, subprocess.run(command, cwd=ROOT, env=settings).returncode)
    return min(code, 1)


if __name__ == "__main__":
    raise SystemExit(main())
