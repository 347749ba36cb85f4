"""Run the tests as other machines would: other kernels, threads, hash seeds, locales, folders, orders, load.

    .venv/bin/python tools/environments.py                   # name them
    .venv/bin/python tools/environments.py A B C             # the whole suite under each of these
    .venv/bin/python tools/environments.py sse4 path -- -x tests/docs  # with arguments for pytest

Runs are made one after the other by the Python that runs this file. At the end each gets one line, and
``.environments/NAME.log`` is what its pytest printed. Random orders need pytest-randomly in that Python.

Exit code: 0 if all tests of all runs passed, 1 if not, 2 for a name that is none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / ".environments"


@dataclass(frozen=True)
class Environment:
    """What is different for the tests."""

    variables: dict[str, str] = field(default_factory=dict)
    empty_home: bool = False
    odd_path: bool = False
    """Whether the checkout's path, and Python's, has a space and an umlaut."""
    seed: int | None = None
    """The seed of a random order. None: the order of files."""
    load: int = 0
    """The number of processes that compute next to the tests."""


ENVIRONMENTS = {
    "default": Environment({"ATEN_CPU_CAPABILITY": "default"}),
    "avx2": Environment({"ATEN_CPU_CAPABILITY": "avx2"}),
    "sse4": Environment({"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}),
    "compatible": Environment({"MKL_CBWR": "COMPATIBLE"}),
    "threads1": Environment({"OMP_NUM_THREADS": "1"}),
    "threads4": Environment({"OMP_NUM_THREADS": "4"}),
    "hash1": Environment({"PYTHONHASHSEED": "1"}),
    "hash2": Environment({"PYTHONHASHSEED": "2"}),
    "locale": Environment({"LANG": "C"}),
    "timezone": Environment({"TZ": "Asia/Kolkata"}),
    "narrow": Environment({"COLUMNS": "40"}),
    "home": Environment(empty_home=True),
    "path": Environment(odd_path=True),
    "random1": Environment(seed=1),
    "random2": Environment(seed=2),
    "load": Environment(load=6),
    # Several at once find nearly as much in a fraction of the time.
    "A": Environment(
        {
            "ATEN_CPU_CAPABILITY": "default",
            "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "1",
            "LANG": "C",
        }
    ),
    "B": Environment(
        {
            "ATEN_CPU_CAPABILITY": "avx2",
            "MKL_CBWR": "COMPATIBLE",
            "OMP_NUM_THREADS": "4",
            "PYTHONHASHSEED": "2",
            "TZ": "Asia/Kolkata",
            "COLUMNS": "40",
        },
        empty_home=True,
    ),
    "C": Environment(odd_path=True, seed=3),
}


def run(name: str, arguments: list[str]) -> tuple[int, str]:
    """Run pytest in an environment. Return its exit code and the last line that it printed."""
    chosen = ENVIRONMENTS[name]
    variables = {**os.environ, **chosen.variables}
    order = ["-p", "no:randomly"] if chosen.seed is None else [f"--randomly-seed={chosen.seed}"]
    log = LOGS / f"{name}.log"
    with ExitStack() as stack:
        root, python = ROOT, Path(sys.executable)
        if chosen.odd_path:
            root, python = stack.enter_context(odd_copy())
            variables["PYTHONPATH"] = str(root / "src")
        if chosen.empty_home:
            variables["HOME"] = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(busy(chosen.load))
        out = stack.enter_context(log.open("wb"))
        command = [python, "-m", "pytest", *order, *arguments]
        done = subprocess.run(command, cwd=root, env=variables, stdout=out, stderr=out, check=False)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return done.returncode, lines[-1].strip("= ") if lines else "nothing printed"


@contextmanager
def odd_copy() -> Iterator[tuple[Path, Path]]:
    """Yield a copy of the tracked and new files below an odd path, and this Python by a path in the copy."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve() / "ein pfad ü"
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
        for name in map(os.fsdecode, filter(None, listed.split(b"\0"))):
            if (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
        # Python finds its packages from the path that it is started by, links and all.
        (copy / ".venv").symlink_to(sys.prefix, target_is_directory=True)
        yield copy, copy / ".venv" / Path(sys.executable).relative_to(sys.prefix)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many processes computing."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def main(words: list[str]) -> int:
    """Run what `words` name and print a line for each. Return the exit code."""
    cut = words.index("--") if "--" in words else len(words)
    names, arguments = words[:cut], words[cut + 1 :]
    if not names or not set(names) <= set(ENVIRONMENTS):
        print(f"{__doc__}\nenvironments: {', '.join(ENVIRONMENTS)}")
        return 2
    LOGS.mkdir(exist_ok=True)
    results = {}
    for name in names:
        results[name] = run(name, arguments)
        print(f"{name:12} {results[name][1]}", flush=True)
    return int(any(code for code, _ in results.values()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
