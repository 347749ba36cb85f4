"""Score the candidate edits that reports carry: ``python tests/repair/score_candidates.py [FOLDER]``.

Each program is run once under ``unclobber run``. The first edit that its report shows, which was not run, is
made, and the program is run again, by itself and under ``run``:

right     it runs clean, with the gradients of its twin or of the program under guard
clean     it runs clean, and there is nothing to compare: torch refuses the write itself, and there is no twin
next      what was found is gone, and the next finding of the program is told
no help   the same is found again
broken    it fails with another error, or has other gradients

One line for each that is not right, and the numbers. Exits 1 if one is broken.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

import warm
from programs import running
from programs.running import PROGRAMS, Case, find_cases, gradients, run_reported
from repair.judging import same

Gradients = dict[str, tuple[float, float]]
RIGHT, CLEAN, NEXT, NO_HELP, BROKEN = "right", "clean", "next", "no help", "broken"
NONE, SLOW = "no edit", "too slow"

EPILOGUE = """
def _told():
    import torch
    for name, value in sorted(globals().items()):
        named = value.named_parameters() if isinstance(value, torch.nn.Module) else [("", value)]
        for inner, one in named:
            if isinstance(one, torch.Tensor) and one.is_leaf and one.grad is not None:
                grad = one.grad.detach().to_dense().abs().double()
                print(f"at_end:{name}.{inner}", one.grad.to_dense().sum().item(), grad.sum().item())
_told()
"""
"""Prints the gradients of all leaves that the program's own names hold."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=PROGRAMS)
    parser.add_argument("--only", help="only cases whose name contains this")
    parser.add_argument("--seconds", type=float, default=20.0, help="that one run of a program may take")
    options = parser.parse_args()
    running.TIMEOUT = options.seconds
    began, counts = time.monotonic(), Counter[str]()
    for case in find_cases(options.folder):
        if case.family == "allowed" or (options.only and options.only not in case.name):
            continue
        try:
            result, detail = judged(case, options.seconds)
        except subprocess.TimeoutExpired:
            result, detail = SLOW, f"more than {options.seconds:g} seconds"
        counts[result] += 1
        if result not in (RIGHT, CLEAN, NONE):
            print(f"{result:9} {case.name:50} {detail}", flush=True)
    for result in (RIGHT, CLEAN, NEXT, NO_HELP, BROKEN, NONE, SLOW):
        print(f"{result:9} {counts[result]:4}")
    print(f"{time.monotonic() - began:.0f} seconds")
    return int(bool(counts[BROKEN]))


def judged(case: Case, seconds: float) -> tuple[str, str]:
    """What becomes of a case with its report's first candidate."""
    report = run_reported(case.path).report
    found = [] if report is None else [one for one in report["findings"] if not one.get("ahead")]
    first = next(((one, fix) for one in found for fix in one["fixes"] if fix["edits"]), None)
    if first is None:
        return NONE, ""
    finding, fix = first
    text = edited(case, fix["edits"])
    if text is None:
        return NONE, "in another file"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / case.path.name
        program.write_text(text, encoding="utf-8")
        again = run_reported(program)
        plain = warm.python(str(written(folder, "plain.py", text)), cwd=case.path.parent, timeout=seconds)
        guarded = running.run_guarded(written(folder, "guarded.py", case.text))
    what = f"{finding['code']} {fix['title']}: {fix['code'] or ''}"
    if again.report is None:
        return BROKEN, f"{what}: no report: {last_line(again.stderr)}"
    if left := again.report["findings"]:
        same_place = any(place(one) == place(finding) for one in left)
        return (NO_HELP if same_place else NEXT), f"{what}: then {left[0]['code']} {left[0]['message']}"
    if plain.returncode and last_line(guarded.stderr) != last_line(plain.stderr):
        return BROKEN, f"{what}: {last_line(plain.stderr)}"  # else it ends in an error of its own
    return compared(case, gradients(plain.stdout), gradients(guarded.stdout)), what


def written(folder: str, name: str, text: str) -> Path:
    path = Path(folder) / name
    path.write_text(text + EPILOGUE, encoding="utf-8")
    return path


def compared(case: Case, found: Gradients, guarded: Gradients) -> str:
    """Whether a clean program has the gradients of the program under guard, or prints those of its twin."""
    own = {name: values for name, values in found.items() if not name.startswith("at_end:")}
    twin = gradients(running.run_plain(case.fixed).stdout) if case.fixed.exists() else {}
    if same(found, guarded) or same(own, twin):
        return RIGHT
    return BROKEN if twin or (guarded and found) else CLEAN


def edited(case: Case, edits: list[dict[str, Any]]) -> str | None:
    """The text with the edits; None where one is of another file."""
    lines = case.text.split("\n")
    for edit in sorted(edits, key=lambda one: -one["line"]):
        if Path(edit["path"]).resolve() != case.path.resolve():
            return None
        end = edit["line"] + edit["old"].count("\n")
        lines[edit["line"] - 1 : end] = edit["new"].split("\n")
    return "\n".join(lines)


def place(finding: dict[str, Any]) -> tuple[Any, ...]:
    """What a finding is about, in words that survive edits of other lines."""
    write, saved = (finding["writes"] or [None])[-1], finding["saved"]
    return (finding["code"], write and write["operation"], saved and (saved["operation"], saved["role"]))


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


if __name__ == "__main__":
    raise SystemExit(main())
