"""The table of fixers: one file each, in the order in which equally good ones are preferred.

A fixer is a function ``propose(finding, project)`` that yields candidate edits at the places a
finding names. It need not be sure, because each edit is run and compared before a user sees it.
It must be certain of one thing only: that the text it yields is Python and differs where it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...model import Finding
from .._candidate import Candidate
from ..project import Project
from .clone_parameters import propose as _clone_parameters
from .clone_saved import propose as _clone_saved
from .clone_target import propose as _clone_target
from .data_write import propose as _data_write
from .detach_hidden import propose as _detach_hidden
from .detach_state import propose as _detach_state
from .inference_mode import propose as _inference_mode
from .inplace_modules import propose as _inplace_modules
from .keep_graph import propose as _keep_graph
from .mark_dirty import propose as _mark_dirty
from .move_step import propose as _move_step
from .multi_view import propose as _multi_view
from .no_grad import propose as _no_grad
from .out_of_place import propose as _out_of_place
from .own_memory import propose as _own_memory
from .rebind_element import propose as _rebind_element
from .recompute import propose as _recompute
from .save_for_backward import propose as _save_for_backward
from .scatter import propose as _scatter
from .stack_list import propose as _stack_list

Fixer = Callable[[Finding, Project], Iterable[Candidate]]

FIXERS: dict[str, Fixer] = {
    "no-grad": _no_grad,
    "out-of-place": _out_of_place,
    "rebind-element": _rebind_element,
    "inplace-modules": _inplace_modules,
    "scatter": _scatter,
    "mark-dirty": _mark_dirty,
    "clone-saved": _clone_saved,
    "clone-target": _clone_target,
    "stack-list": _stack_list,
    "multi-view": _multi_view,
    "own-memory": _own_memory,
    "inference-mode": _inference_mode,
    "keep-graph": _keep_graph,
    "detach-state": _detach_state,
    "detach-hidden": _detach_hidden,
    "save-for-backward": _save_for_backward,
    "data-write": _data_write,
    "clone-parameters": _clone_parameters,
    "recompute": _recompute,
    "move-step": _move_step,
}

ALWAYS_IN_DOUBT = frozenset({"detach-hidden", "detach-state", "move-step", "recompute"})
"""Fixers whose every candidate is in doubt (`Candidate.in_doubt`), so that no report shows one."""

__all__ = ["ALWAYS_IN_DOUBT", "FIXERS", "Fixer"]
