"""Count what each rule comes to: ``python tests/programs/count_rules.py [--check FOLDER ...] [FOLDER ...]``.

``run`` watches the programs of the corpus and those below further folders: a row counts the programs with a
finding of the code. ``check --all`` reads the same programs and every file below the
folders of ``--check``: a row counts the files in which the rule has a finding by itself, and on request.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from programs.running import PROGRAMS, find_cases, run_reported
from unclobber.model import CODES
from unclobber.static import CheckRule, python_files
from unclobber.static._program import followed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", nargs="*", type=Path, default=[], help="folders whose sources are read")
    parser.add_argument("folders", nargs="*", type=Path, help="further folders of programs")
    options = parser.parse_args()
    paths = [case.path for folder in (PROGRAMS, *options.folders) for case in find_cases(folder)]
    with ThreadPoolExecutor(2) as pool:
        found = Counter(code for codes in pool.map(observed, paths) for code in codes)
    print(f"{len(paths)} programs\n\n| code | programs |\n|---|--:|")
    for code in CODES:
        print(f"| {code} | {found[code]} |")
    sources = python_files(map(str, (*paths, *options.check)))
    surely, requested = checked(sources)
    print(f"\n{len(sources)} files\n\n| rule | code | by itself | on request |\n|---|---|--:|--:|")
    for rule in CheckRule:
        print(f"| {rule.name} | {rule.value.code} | {surely[rule]} | {requested[rule]} |")


def observed(path: Path) -> set[str]:
    """Return the codes of the findings of a watched program."""
    report = run_reported(path).report or {"findings": []}
    return {finding["code"] for finding in report["findings"]}


def checked(paths: Iterable[str]) -> tuple[Counter[CheckRule], Counter[CheckRule]]:
    """Return the number of files with a finding, by rule: without a request, and with one."""
    sys.setrecursionlimit(6_000)  # as `check` does, for nested source
    surely, requested = Counter[CheckRule](), Counter[CheckRule]()
    for path in paths:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        try:
            every = followed(text, path).suspicions.values() if "torch" in text else ()
        except (SyntaxError, ValueError, RecursionError):
            continue
        surely.update({each.rule for each in every if each.is_reported(all_rules=False)})
        requested.update({each.rule for each in every if each.is_reported(all_rules=True)})
    return surely, requested


if __name__ == "__main__":
    main()
