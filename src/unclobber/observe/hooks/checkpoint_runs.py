"""Saves of both runs of a checkpoint's code, in order.

Inside of a checkpoint torch's own hooks are the innermost, so the session's hooks get none of its saves.
torch compares the shapes of both runs and knows no lines: these are noted here, in both runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ...source import Stack, of_program
from ...torch_internals import compat

_RUNS = "_unclobber_runs"
"""Attribute of torch's record of a checkpoint: the saves of its forward and of its last recomputation."""


class RunSave(NamedTuple):
    """A save in one of both runs."""

    stack: Stack
    shape: torch.Size
    dtype: torch.dtype


def noting(pack: Any) -> Callable[[torch.Tensor], None]:
    """Return a function that notes a save of a pack hook's run; it does nothing for other hooks."""
    record, again = compat.entries.checkpoint_of(pack) or (None, False)
    if record is None:
        return lambda tensor: None
    forward, _ = runs_of(record)
    saves: list[RunSave] = [] if again else forward
    setattr(record, _RUNS, (forward, saves if again else []))

    def note(tensor: torch.Tensor) -> None:
        saves.append(RunSave(of_program(), tensor.shape, tensor.dtype))

    return note


def runs_of(record: Any) -> tuple[list[RunSave], list[RunSave]]:
    """Return the saves of the forward and of the last recomputation of a checkpoint."""
    runs: tuple[list[RunSave], list[RunSave]] = getattr(record, _RUNS, ([], []))
    return runs
