"""Score the command over programs: ``python tests/programs/score.py [FOLDER] [--family F] [--real]``.

Prints one line per program and a table per family (the code, for programs that say none): full hits, misses,
wrong statements. Exits 1 if anything wrong was said.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from programs.running import PROGRAMS, Case, find_cases, run_reported
from programs.scoring import Problem, score


def score_case(case: Case) -> list[Problem]:
    """Run one program and compare; no report at all is a miss."""
    run = run_reported(case.path)
    if run.report is None:
        last = (run.stderr.strip().splitlines() or ["nothing on stderr"])[-1]
        return [Problem("missed", "report", f"exit code {run.exit_code}: {last}")]
    return score(case.truth, run.report, case.text, case.path.name)


def outcome(problems: list[Problem]) -> str:
    """The column that a program counts in; a false statement outweighs misses."""
    if not problems:
        return "full"
    return "wrong" if any(p.kind == "wrong" for p in problems) else "missed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=PROGRAMS)
    parser.add_argument("--family", action="append", help="only this family; may be repeated")
    parser.add_argument("--real", action="store_true", help="only programs that were found in the wild")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cases = [
        case
        for case in find_cases(options.folder)
        if not options.family or case.family in options.family
        if not options.real or "source" in case.truth.facts
    ]
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    with ThreadPoolExecutor(options.jobs) as pool:
        for case, problems in zip(cases, pool.map(score_case, cases), strict=True):
            counts[case.family][outcome(problems)] += 1
            print(f"{outcome(problems):7} {case.family:16} {case.name}")
            for problem in problems:
                print(f"        {problem}")
    columns = ("full", "missed", "wrong")
    print(f"\n{'family':18}" + "".join(f"{column:>8}" for column in columns))
    for family, count in sorted(counts.items()):
        print(f"{family:18}" + "".join(f"{count[column]:8}" for column in columns))
    return int(any(count["wrong"] for count in counts.values()))


if __name__ == "__main__":
    raise SystemExit(main())
