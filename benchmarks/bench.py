"""Measure what ``watch`` and ``guard`` cost, beside torch's own contexts, in one run.

python benchmarks/bench.py            # everything, writes benchmarks/RESULTS.md
python benchmarks/bench.py --quick    # fewer rounds, printed only
python benchmarks/bench.py --only mlp-sgd --only loop
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from foreign import table as package_table
from loops import MODES as LOOP_MODES
from loops import WIDTH, Form, Run, exponent
from loops import run as run_loop
from machine import description
from measure import CLOSE, EVERY, entries, interleaved
from workloads import WORKLOADS, Workload

RESULTS = Path(__file__).parent / "RESULTS.md"
MEMORY = Path(__file__).parent / "MEMORY.md"
PARTS = ("entry", *(workload.name for workload in WORKLOADS), "packages", "loop")


def entry_table(quick: bool) -> Iterator[str]:
    yield "## Entering and leaving an empty context (ms)"
    yield ""
    yield "| mode | first time in the process | enter | leave |"
    yield "|---|---:|---:|---:|"
    for mode, entry in entries(5 if quick else 30).items():
        yield f"| {mode} | {entry.first:.2f} | {entry.enter:.3f} | {entry.leave:.3f} |"


def workload_table(workload: Workload, quick: bool) -> Iterator[str]:
    torch.manual_seed(0)
    rounds = max(3, workload.rounds // 25) if quick else workload.rounds
    timings = interleaved(workload.make(), rounds, workload.steps)
    yield f"## {workload.title}"
    yield ""
    yield f"{rounds} rounds of {workload.steps} steps for {', '.join(CLOSE)}; the others in each {EVERY}th."
    yield ""
    yield "| mode | ms per step, median | quartiles | ratio to plain | quartiles of the ratio |"
    yield "|---|---:|---:|---:|---:|"
    for mode, t in timings.items():
        yield (
            f"| {mode} | {t.median:.3f} | {t.low:.3f} – {t.high:.3f} "
            f"| **{t.ratio:.2f}x** | {t.ratio_low:.2f} – {t.ratio_high:.2f} |"
        )


def loop_table(form: Form, quick: bool) -> Iterator[str]:
    sizes = (100, 200, 400) if quick else (250, 500, 1000, 2000)
    statement = "table[i] = value" if form == "slice" else "table.index_fill_(0, i, value)"
    yield f"## A loop of N steps that saves a table of N x {WIDTH} and then runs `{statement}`"
    yield ""
    yield "| mode | N | bytes kept | kept / overwritten while needed | CPU time (s) | gradient |"
    yield "|---|---:|---:|---:|---:|---|"
    run_loop("guard", sizes[-1], form)  # first use of everything, of memory too: its pages are mapped then
    runs = {mode: [run_loop(mode, n, form) for n in sizes] for mode in LOOP_MODES}
    for mode, each in runs.items():
        for r in each:
            gradient = "right" if r.right else "**wrong**"
            yield (
                f"| {mode} | {r.steps:,} | {r.kept:,} | {r.kept / r.overwritten:.2f} "
                f"| {r.seconds:.2f} | {gradient} |"
            )
    yield ""
    yield "| mode | growth of bytes kept | growth of time |"
    yield "|---|---:|---:|"
    for mode, each in runs.items():
        yield f"| {mode} | {growth(each, 'kept')} | {growth(each, 'seconds')} |"


def growth(runs: list[Run], what: str) -> str:
    """The fitted power of N, such as ``N^1.00``."""
    found = exponent([r.steps for r in runs], [getattr(r, what) for r in runs])
    return "nothing kept" if found is None else f"N^{found:.2f}"


def sections(parts: list[str], quick: bool, packages: str) -> Iterator[str]:
    """The whole report, line by line, as it is measured."""
    yield "# What it costs"
    yield ""
    yield "Written by `python benchmarks/bench.py` in one run, all modes interleaved."
    yield "Times are CPU time of one thread (`time.thread_time`, `torch.set_num_threads(1)`);"
    yield "each context is entered once per round and steps are timed inside."
    yield "Ratios are taken round by round against plain PyTorch. The allocator is told to keep freed memory."
    yield ""
    yield from (f"- {fact}" for fact in description())
    yield ""
    if "entry" in parts:  # first: it measures the first entry of the process
        yield from entry_table(quick)
        yield ""
    for workload in WORKLOADS:
        if workload.name in parts:
            yield from workload_table(workload, quick)
            yield ""
    if "packages" in parts:
        yield from package_table(packages, quick)
        yield ""
    if "loop" in parts:
        for form in ("slice", "index"):
            yield from loop_table(form, quick)
            yield ""
    if MEMORY.exists():  # measured apart: it needs packages with real models
        yield from (re.sub("^#", "##", line) for line in MEMORY.read_text("utf-8").splitlines())


def keep_freed_memory() -> None:
    """Begin anew with an allocator (glibc's) that keeps what is freed.

    It would give large tensors back to the system and fetch them again in each step, by its mood: page
    faults of several percent, which fall on one mode or the other.
    """
    wanted = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(4 << 30)}
    if not wanted.keys() <= os.environ.keys():
        os.environ.update(wanted)
        os.execv(sys.executable, [sys.executable, *sys.argv])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller loops")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part; may be repeated")
    parser.add_argument("--output", type=Path, help="write here; a full run writes RESULTS.md by itself")
    parser.add_argument("--packages", metavar="PYTHON", default=sys.executable, help="has the ten packages")
    options = parser.parse_args()
    keep_freed_memory()
    parts = options.only or list(PARTS)
    torch.set_num_threads(1)
    lines = []
    for line in sections(parts, options.quick, options.packages):
        print(line, flush=True)
        lines.append(line)
    output = options.output
    if output is None and not options.quick and options.only is None:
        output = RESULTS
    if output is not None:
        output.write_text("\n".join(lines).rstrip() + "\n")
        print(f"written to {output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
