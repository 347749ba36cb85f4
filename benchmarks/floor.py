"""What hooks of saved tensors cost in torch itself, next to what watching costs, for ten packages.

python benchmarks/floor.py               # in an environment that has them, with a C++ compiler
python benchmarks/floor.py torchdiffeq

The floor is a hook in C++ that keeps the tensor and gives it back, by the way that the native core takes.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import foreign

HERE = Path(__file__).parent
COLUMNS = ("floor", "watch, native", "guard, native")
ROUNDS = 40


def built(folder: str) -> Any:
    """Compile floor.cpp and import it."""
    from torch.utils import cpp_extension

    made = Path(folder) / "unclobber_floor.so"
    if not made.exists():
        compiler = os.environ.get("CXX", "c++")
        command = [compiler, "-std=c++20", "-O2", "-fPIC", "-shared", "-w", str(HERE / "floor.cpp")]
        command += [f"-I{include}" for include in cpp_extension.include_paths()]
        command += [f"-I{sysconfig.get_path('include')}", "-o", str(made)]
        command += [f"-L{library}" for library in cpp_extension.library_paths()]
        command += ["-lc10", "-ltorch_cpu", "-ltorch_python"]
        subprocess.run(command, check=True)
    spec = importlib.util.spec_from_file_location("unclobber_floor", made)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of(name: str, folder: str, rounds: int) -> None:
    """Print the row of one package."""
    import measure

    hooks = built(folder)

    @contextmanager
    def floor() -> Iterator[None]:
        hooks.use(True)
        try:
            yield
        finally:
            hooks.use(False)

    measure.MODES["floor"] = floor
    measure.CLOSE = (*measure.CLOSE, "floor")
    times = foreign.measure(name, rounds, COLUMNS)
    print(f"| {name} | {times['plain']:.2f} | {' | '.join(f'{times[c]:.3f}x' for c in COLUMNS)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(foreign.STEPS_OF))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--folder", help="where floor.cpp is compiled")
    options = parser.parse_args()
    if options.folder is not None:
        return of(options.names[0], options.folder, options.rounds)
    print(f"| package | plain (ms) | {' | '.join(COLUMNS)} |\n|---|---:|---:|---:|---:|")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names:
            command = [sys.executable, __file__, name, "--folder", folder, "--rounds", str(options.rounds)]
            row = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
            rows.append([float(cell.strip().rstrip("x")) for cell in row.split("|")[3:6]])
            print(row, flush=True)
    for word, what in (("median", statistics.median), ("worst", max)):
        print(
            f"| {word} | | {' | '.join(f'**{what(column):.3f}x**' for column in zip(*rows, strict=True))} |"
        )
    return None


if __name__ == "__main__":
    main()
