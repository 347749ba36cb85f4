"""Score ``unclobber fix`` over a folder of cases: ``python tests/repair/score_fixers.py [FOLDER]``.

One line per case that torch refuses and a table per family. Exits 1 if a claimed proof was wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from programs.running import PROGRAMS, find_cases
from repair.judging import judge
from unclobber.repair import Runner


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=PROGRAMS)
    parser.add_argument("--family", action="append", help="only this family; may be repeated")
    parser.add_argument("--only", help="only cases whose name contains this")
    parser.add_argument("--silent", action="store_true", help="cases that torch does not refuse, too")
    options = parser.parse_args()
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for case in find_cases(options.folder):
        if not case.fixed.exists():
            continue
        if options.family and case.family not in options.family:
            continue
        if options.only and options.only not in case.name:
            continue
        if case.family == "allowed" or not (options.silent or case.refused):
            continue
        began = time.monotonic()
        with Runner() as runner:
            verdict = judge(case, runner)
        counts[case.family][verdict.result] += 1
        seconds = time.monotonic() - began
        print(
            f"{verdict.result:9} {case.family:16} {case.name:45} {seconds:5.1f}s {verdict.runs:3}  "
            f"{verdict.detail}",
            flush=True,
        )
    columns = ("right", "unproved", "nothing", "wrong")
    print(f"\n{'family':18}" + "".join(f"{column:>10}" for column in columns))
    for family, count in sorted(counts.items()):
        print(f"{family:18}" + "".join(f"{count[column]:10}" for column in columns))
    total = sum(counts.values(), Counter())
    print(f"{'all':18}" + "".join(f"{total[column]:10}" for column in columns))
    return int(bool(total["wrong"]))


if __name__ == "__main__":
    raise SystemExit(main())
