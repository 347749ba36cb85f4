"""Whether a repair that claims a proof is right: told by the case's twin, or by the program under guard.

The twin is what a person wrote. Where it changes what is computed (a forward that is done again with
new weights), the gradients of the program as written are the other right answer.
"""

from __future__ import annotations

import math
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import warm
from programs.running import Case, gradients
from unclobber.repair import rounds as _rounds
from unclobber.repair.outcome import Clean, Unproved
from unclobber.repair.proof import Runner

TIMEOUT = 120.0


@dataclass(frozen=True)
class Verdict:
    """One case's result: ``right``, ``wrong``, ``unproved`` or ``nothing``."""

    result: str
    detail: str
    offered: int = 0
    runs: int = 0


def judge(case: Case, runner: Runner) -> Verdict:
    """Repair a case and check the claim."""
    rounds = _rounds.fix(str(case.path), runner=runner, fix_all=True)
    last = rounds.last
    offered = len(getattr(last, "offered", ()))
    titles = " + ".join(" + ".join(outcome.best.titles) for outcome in rounds.proved)
    if not rounds.proved:
        if isinstance(last, Clean):
            return Verdict("nothing", "clean")
        reason = getattr(last, "reason", "")
        found = last.finding.code if isinstance(last, Unproved) else "-"
        return Verdict("unproved", f"{found} {reason}", offered, rounds.runs)
    fixed = run_text(case, dict(rounds.project.overlay)[str(case.path.resolve())])
    if fixed.returncode != 0:
        still = "" if isinstance(last, Clean) else f" ({getattr(last, 'reason', '')})"
        result = "wrong" if isinstance(last, Clean) else "unproved"
        return Verdict(
            result, f"{titles}: fails: {fixed.stderr.strip().splitlines()[-1]}{still}", offered, rounds.runs
        )
    found_gradients = gradients(fixed.stdout)
    for name, program in (
        ("twin", [str(case.fixed)]),
        ("guard", ["-m", "unclobber", "run", "--guard", str(case.path)]),
    ):
        if same(found_gradients, gradients(run(program, case.path.parent).stdout)):
            return Verdict("right", f"{titles} [= {name}]", offered, rounds.runs)
    return Verdict("wrong", f"{titles}: {found_gradients}", offered, rounds.runs)


def same(one: dict[str, tuple[float, float]], other: dict[str, tuple[float, float]]) -> bool:
    """Whether two programs have printed the same gradients, to five digits of each gradient's size."""
    if not one or one.keys() != other.keys():
        return False
    return all(
        math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-5 * max(one[name][1], 1e-9))
        for name in one
        for a, b in zip(one[name], other[name], strict=True)
    )


def run_text(case: Case, text: str) -> subprocess.CompletedProcess[str]:
    """A case's program with another text, under Python alone."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / case.path.name
        program.write_text(text)
        return run([str(program)], case.path.parent)


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return warm.python(*arguments, cwd=folder, timeout=TIMEOUT)
