"""The table of fixers: one file each, in the order in which equally good ones are preferred.

A fixer is a function ``propose(finding, project)`` that yields candidate edits at the places a
finding names. It need not be sure, because each edit is run and compared before a user sees it.
It must be certain of one thing only: that the text it yields is Python and differs where it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module

from ...model import Finding
from .._candidate import Candidate
from ..project import Project


@dataclass(frozen=True)
class Fixer:
    """A way to fix, with what sets its repairs apart from those of others."""

    name: str  # its file's, with hyphens
    apart: str  # a clause: what it keeps, copies or moves
    codes: str = ""  # the codes that it is for, separated by blanks; empty for those of all writes
    in_doubt: bool = False
    """Whether each of its candidates is in doubt (`Candidate.in_doubt`), so that no report shows one."""
    new: bool = False  # whether it puts in a new tensor, which has no history where nothing is recorded
    cuts: bool = False  # whether it detaches what a loop carries, which only the user can decide
    late: bool = False  # whether to try it after others of the same size, as `Candidate.late`
    keeps_graphs: bool = False  # whether it copies weights for the graphs of all turns, which a cut frees

    def __call__(self, finding: Finding, project: Project) -> Iterator[Candidate]:
        """Yield its candidates, each with this fixer's name."""
        if self.codes and finding.code not in self.codes.split():
            return
        # A checkpoint's recomputation would read the new tensor of a name, attribute or entry.
        if finding.variant == "recomputed" and self.new and self.name != "out-of-place":
            return
        for candidate in _PROPOSE[self.name](finding, project):
            yield replace(candidate, fixer=self.name)


_FIXERS = (
    Fixer(
        "no-grad",
        "the write stays in place and is not recorded, so no gradient goes through it",
        "UC201 UC202 UC203",
    ),
    Fixer("out-of-place", "a new tensor; other names keep the old one", new=True),
    Fixer("return-gradient", "a new tensor, which the hook returns", "UC101 UC102 UC104"),
    Fixer("rebind-element", "a new tensor as the container's entry; other names keep the old one", new=True),
    Fixer("inplace-modules", "the module makes a new tensor"),
    Fixer("list-stack", "a list of new tensors and one stack; no name keeps the buffer"),
    Fixer("scatter", "a new tensor as large as the whole; other names keep the old one", new=True),
    Fixer("mark-dirty", "the Function still writes in place, and says so"),
    Fixer("empty-cache", "the region stays open, and each weight is cast once more", "UC106"),
    Fixer("own-memory", "a copy more, in memory that nothing else shares", "UC102 UC202 UC207"),
    Fixer("clone-saved", "a copy more, for backward; the write stays in place, and every name sees it"),
    Fixer("clone-target", "a copy more, and the write goes into it; other names keep the old one", new=True),
    Fixer("multi-view", "each part is a view of its own", "UC203", late=True),
    Fixer("inference-mode", "another gradient mode; the write stays in place", "UC204 UC206"),
    Fixer("keep-graph", "what the first backward saved is kept until the next one", "UC301"),
    Fixer("detach-state", "the loop cuts off what it carries", "UC101 UC301", in_doubt=True, cuts=True),
    Fixer("detach-hidden", "the state is cut off where it is kept", "UC101 UC301", in_doubt=True, cuts=True),
    Fixer("detach-stored", "what is stored is a constant for backward", "UC301", in_doubt=True, cuts=True),
    Fixer("save-for-backward", "the tensor is kept by autograd, or as a copy on `ctx`", "UC103"),
    Fixer("reorder", "another order of lines, or fewer gradients", "UC101 UC102 UC105", in_doubt=True),
    Fixer("clone-parameters", "copies of parameters, until backward", "UC101 UC102", keeps_graphs=True),
    Fixer("recompute", "the forward runs once more", in_doubt=True),
)
FIXERS = {fixer.name: fixer for fixer in _FIXERS}
_PROPOSE = {name: import_module(f".{name.replace('-', '_')}", __name__).propose for name in FIXERS}

__all__ = ["FIXERS", "Fixer"]
