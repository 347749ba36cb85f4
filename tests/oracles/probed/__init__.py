"""Programs with probes, which note all that a program can tell of its surroundings, and how logs compare."""

from ._compare import first_difference, gradients_difference, guarded_difference, watched_difference
from ._program import Line, ProbedProgram
from ._run import Log, Plainly, run_text

__all__ = [
    "Line",
    "Log",
    "Plainly",
    "ProbedProgram",
    "first_difference",
    "gradients_difference",
    "guarded_difference",
    "run_text",
    "watched_difference",
]
