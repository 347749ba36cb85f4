"""Count what each fixer comes to: ``python tests/repair/count_fixers.py [SCRIPTS] [FOLDER ...]``.

``fix --all`` runs over the programs of the corpus, those below further folders, and some made scripts. For
each fixer the table has the number of programs in which it proposes an edit, an edit of it is run, is proved,
is the best one, and is offered for the user to decide.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from grammar.training import scripts
from programs.running import PROGRAMS
from unclobber.repair import _plan, _search
from unclobber.repair.fixers import FIXERS
from unclobber.repair.proof import Runner
from unclobber.repair.rounds import fix

COLUMNS = ("proposed", "run", "proved", "best", "offered")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", nargs="?", type=int, default=100, help="made scripts")
    parser.add_argument("folders", nargs="*", type=Path, help="further folders of programs")
    options = parser.parse_args()
    total: defaultdict[str, Counter[str]] = defaultdict(Counter)
    count = 0
    with tempfile.TemporaryDirectory() as folder, Runner(60.0) as runner:
        os.chdir(folder)
        Path("pyproject.toml").touch()
        for text in _texts(options.folders, options.number):
            Path("train.py").write_text(text)
            count += 1
            for column, fixers in _counted(runner).items():
                for fixer in fixers:
                    total[fixer][column] += 1
    print(f"{count} programs\n")
    print("| fixer | " + " | ".join(COLUMNS) + " |\n|---|" + "--:|" * len(COLUMNS))
    for name in FIXERS:
        print(f"| {name} | " + " | ".join(str(total[name][column]) for column in COLUMNS) + " |")


def _texts(folders: list[Path], number: int) -> Iterator[str]:
    for folder in (PROGRAMS, *folders):
        for path in sorted(folder.glob("*/*.py")):
            if not path.stem.endswith(".fixed"):
                yield path.read_text(encoding="utf-8")
    yield from (script.text for script in scripts(number))


def _counted(runner: Runner) -> dict[str, set[str]]:
    """The fixers by what they came to in one program."""
    found: dict[str, set[str]] = {column: set() for column in COLUMNS}
    candidates, watch = _plan.candidates, _search.Search._watch

    def proposing(*args: Any, **options: Any) -> Any:
        proposed = candidates(*args, **options)
        found["proposed"].update(candidate.fixer for candidate in proposed)
        return proposed

    def running(search: _search.Search, state: Any, **options: Any) -> Any:
        found["run"].add(state.steps[-1].fixer)
        return watch(search, state, **options)

    _plan.candidates, _search.Search._watch = proposing, running  # type: ignore[method-assign]
    try:
        rounds = fix("train.py", fix_all=True, runner=runner)
    finally:
        _plan.candidates, _search.Search._watch = candidates, watch  # type: ignore[method-assign]
    for outcome in rounds.explained:
        found["offered"].update(fixer for repair in outcome.offered for fixer in repair.fixers)
        found["proved"].update(fixer for repair in outcome.repairs for fixer in repair.fixers)
        found["best"].update(fixer for repair in outcome.repairs[:1] for fixer in repair.fixers)
    return found


if __name__ == "__main__":
    main()
