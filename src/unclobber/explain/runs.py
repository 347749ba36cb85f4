"""Evidence for torch's refusal of a checkpoint whose recomputation saved other tensors than its forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from torch.utils.checkpoint import CheckpointError

from ..model import Save
from ..observe.hooks.checkpoint import runs_in
from ..source import Stack, is_library, is_own, resolve
from ..torch_internals import compat
from . import need, save
from ._evidence import RunsEvidence
from .refusals import live_frames_of

_MOST = 3  # changed values that are named


def evidence(error: BaseException, backwards_before: int) -> RunsEvidence | None:
    """Return the evidence for torch's ``CheckpointError``; None if the checkpoint was not observed, or if
    torch refuses something else of it."""
    cause = error.__cause__  # `debug=True` raises a longer one
    live_frames = live_frames_of(cause if isinstance(cause, CheckpointError) else error)
    runs = next(filter(None, (runs_in(live_frame.frame.f_locals) for live_frame in live_frames)), None)
    first, second = (None, None) if runs is None else _first_that_differs(runs.forward, runs.again)
    if runs is None or (first is None and second is None):
        return None
    values = runs.values
    # One module that is put into another mode puts all of its own into it.
    modes = [name for name, _, _ in values if name.endswith(".training")]
    values = [change for change in values if change[0] not in modes[1:]]
    return RunsEvidence(
        torch_message=str(error).partition("\n")[0],
        forward=first and _save(first, first.stack),
        again=second and _save(second, _inside(second.stack)),
        needed=need.latest(live_frames_of(error), backwards_before),
        values=tuple(
            (name, repr(old), repr(new)) for name, old, new in values if name not in ("torch", "random")
        )[:_MOST],
        written=tuple(runs.written[:_MOST]),
        random=next((name for name, _, _ in values if name in ("torch", "random")), None),
    )


def _first_that_differs(forward: Sequence[Any], again: Sequence[Any]) -> tuple[Any, Any]:
    # The line counts: runs that take different branches differ there first
    # (tests/programs/UC105/checkpoint_a_counter_decides.py).
    pairs = zip_longest(forward, again)
    return next(((first, second) for first, second in pairs if _key(first) != _key(second)), (None, None))


def _key(run_save: Any) -> Any:
    return run_save and (_inside(run_save.stack), run_save.shape, run_save.dtype)


def _inside(stack: Stack) -> Stack:  # a library's frames if there are none of the program
    frames = list(zip(stack[::2], stack[1::2], strict=True))
    home = compat.entries.CHECKPOINT[0].__file__
    end = next((i for i, (code, _) in enumerate(frames) if code.co_filename == home), len(frames))
    inside = [frame for frame in frames[:end] if not is_own(frame[0])]
    program = [frame for frame in inside if not is_library(frame[0])]
    return tuple(part for frame in program or inside for part in frame)


def _save(run_save: Any, stack: Stack) -> Save:
    facts = save.of_kind(tuple(run_save.shape), run_save.dtype, run_save.shape.numel())
    return replace(facts, site=resolve(stack))
