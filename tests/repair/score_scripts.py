"""Score ``unclobber fix`` over made scripts: ``python tests/repair/score_scripts.py [NUMBER]``.

One line per script that is not cured rightly and a table per family. Exits 1 if a proved fixer makes a script
do something else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from grammar.training import scripts
from repair.script_runs import DIFFERENT, RIGHT, UNFIT, UNFIXED, check, desk

COLUMNS = ("scripts", "found", "fixed", "proved to the end", UNFIXED, DIFFERENT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", nargs="?", type=int, default=100)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first ones")
    parser.add_argument("--family", action="append", help="only this family; may be repeated")
    parser.add_argument("--all", action="store_true", help="a line for each script, right ones too")
    parser.add_argument("--show", action="store_true", help="show the texts of those that are not right")
    options = parser.parse_args()
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as folder, desk(Path(folder) / "scripts") as at:
        for number, script in enumerate(scripts(options.number)):
            if number < options.skip or (options.family and script.family not in options.family):
                continue
            began = time.monotonic()
            verdict = check(script, at)
            count = counts[script.family]
            count.update(
                scripts=1, found=verdict.found, fixed=verdict.result == RIGHT,
                **{"proved to the end": verdict.to_end, verdict.result: 1},
            )  # fmt: skip
            if options.all or verdict.result != RIGHT:
                seconds = time.monotonic() - began
                print(
                    f"{verdict.result:10} {number:4} {seconds:5.1f}s {script.name}: {verdict.detail}",
                    flush=True,
                )
                if options.show and verdict.result != RIGHT:
                    print(script.text, flush=True)
    print(table(counts))
    total = sum(counts.values(), Counter())
    return int(bool(total[DIFFERENT] or total[UNFIT]))


def table(counts: dict[str, Counter[str]]) -> str:
    """The counts per family and in all, as a Markdown table."""
    lines = ["| | " + " | ".join(COLUMNS) + " |", "|---|" + "--:|" * len(COLUMNS)]
    for family, count in [*sorted(counts.items()), ("all", sum(counts.values(), Counter()))]:
        lines.append(f"| {family} | " + " | ".join(str(int(count[column])) for column in COLUMNS) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
