"""What random programs are judged by: torch itself, and value semantics.

A ``Program`` is a frozen list of steps whose ``str()`` is Python source. ``run_source`` executes
that source as it stands, plain or inside a context of ours; ``run_functionally`` executes the same
steps without a single in-place operation, so that its gradients are those of the program as
written. The two readings share the text of each step and nothing else.
"""

from ._compare import close, describe, same_bits
from ._contexts import lazy_clone, unchecked
from ._functional import Machine, run_functionally
from ._program import Alias, Backward, Compute, Leaf, Loss, Program, Step, View, Write
from ._source import VERSION_SENTENCE, Gradients, Outcome, run_source
from ._verdict import Verdict, table, verdict

__all__ = [
    "VERSION_SENTENCE",
    "Alias",
    "Backward",
    "Compute",
    "Gradients",
    "Leaf",
    "Loss",
    "Machine",
    "Outcome",
    "Program",
    "Step",
    "Verdict",
    "View",
    "Write",
    "close",
    "describe",
    "lazy_clone",
    "run_functionally",
    "run_source",
    "same_bits",
    "table",
    "unchecked",
    "verdict",
]
