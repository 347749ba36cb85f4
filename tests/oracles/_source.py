"""Run a program's own source, plain or inside a context, and say how it ended."""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from ._program import Program

VERSION_SENTENCE = "modified by an inplace operation"
"""What torch's version check, and nothing else of torch, says."""

Gradients = tuple[tuple[Tensor | None, ...], ...]
"""One tuple per backward pass, in the order of the leaves."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, with the gradients of every backward pass before that."""

    kind: Literal["gradients", "version", "refused"]
    """``version``: torch's version check; ``refused``: any other error of torch."""
    gradients: Gradients
    error: Exception | None = None
    warnings: tuple[str, ...] = ()


def run_source(program: Program, context: Callable[[], AbstractContextManager[Any]] = nullcontext) -> Outcome:
    """Execute ``str(program)`` inside a fresh ``context()``.

    Every error of the program is an outcome, none is raised: whether it is the right one is for
    the caller to compare.
    """
    text = str(program)
    name = "<program>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    error: Exception | None = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with context():
                exec(compile(text, name, "exec"), namespace)
        except Exception as raised:
            error = raised.with_traceback(None)  # the frames would keep every tensor alive
    kind: Literal["gradients", "version", "refused"] = "gradients"
    if error is not None:
        kind = "version" if VERSION_SENTENCE in str(error) else "refused"
    gradients = tuple(
        tuple(None if g is None else g.detach().clone() for g in found)
        for found in namespace.get("gradients", ())
    )
    return Outcome(kind, gradients, error, tuple(str(w.message) for w in caught))
