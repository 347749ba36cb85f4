"""Check unclobber on packages from PyPI: prints a table and writes ``realworld/RESULTS.md``.

``make realworld`` runs it in an environment of its own; ``python realworld/run.py NAME…`` checks some and
writes nothing.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from packages import NAMES

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "benchmarks"))

from machine import description  # noqa: E402

HEAD = """\
# Real models

Ten packages from PyPI with random weights, each in a process of its own, on one thread. `make realworld`
writes this.

- **saves**: tensors that autograd saved in one training step under `watch(strict=True)`. No finding, and
  gradients and weights equal to plain torch's to the last bit.
- **plain, Python, native**: CPU milliseconds of a training step, plain and watched by each of the two cores,
  the least of 75; for Lightning of a whole `fit` of 20 steps. In brackets the ratio to plain: of the least of
  three steps of each, one after the other, the median of 25 times.
- **guarded**: the gradients when the optimizer steps between two losses under `guard()`, beside those without
  the step; Lightning's are not compared.
"""


def check(name: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, HERE / "check.py", name], capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode:
        return {"package": name, "problems": [done.stderr.strip()]}
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def figures(all_seen: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| package | version | parameters | saves | plain | Python | native | findings | guarded |",
        "|---|---|---:|---:|---:|---:|---:|---|---|",
    ]
    ratios: dict[str, list[float]] = {"python": [], "native": []}
    for seen in all_seen:
        cells = []
        for core, found in ratios.items():
            if f"{core}_ms" not in seen:
                cells.append("not built")
                continue
            found.append(seen[f"{core}_ratio"])
            cells.append(f"{seen[f'{core}_ms']:.2f} ({found[-1]:.2f}x)")
        lines.append(
            f"| {seen['package']} | {seen['version']} | {seen['parameters']:,} | {seen['saves']} "
            f"| {seen['plain_ms']:.2f} | {' | '.join(cells)} | none | {seen['guarded'] or '–'} |"
        )
    told = [
        f"{core} {statistics.median(found):.2f}x, {max(found):.2f}x at most"
        for core, found in ratios.items()
        if found
    ]
    return [*lines, "", f"Medians of the ratios: {'; '.join(told)}."]


def stories(all_seen: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| package | overwritten parameter | saved by | inside of | overwritten at |",
        "|---|---|---|---|---|",
    ]
    for seen in all_seen:
        lines.append(
            f"| {seen['package']} | `{seen['parameter']}` | `{seen['forward']}` ({seen['saved']}) "
            f"| {seen['inside'] or 'torch'} | `optimizer.step()` ({seen['step']}) |"
        )
    return lines


def main(names: list[str]) -> int:
    all_seen = []
    for name in names or NAMES:
        seen = check(name)
        all_seen.append(seen)
        print(f"{'FAILED' if seen['problems'] else 'ok':8}{name}", flush=True)
        for problem in seen["problems"]:
            print(f"        {problem}")
    if any(seen["problems"] for seen in all_seen):
        return 1
    text = "\n".join(
        [
            HEAD,
            *(f"- {line}" for line in description()),
            "",
            "## A training step",
            "",
            *figures(all_seen),
            "",
            "## The optimizer steps between two losses of one forward",
            "",
            "torch refuses the second backward; the story names the parameter and both lines.",
            "",
            *stories(all_seen),
            "",
        ]
    )
    print(text)
    if not names:
        (HERE / "RESULTS.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
