"""Run a script, plain or inside of a context, and say how it ended."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ._script import LANES, Script

Kept = dict[str, list[list[Tensor | None]]]
"""What the script passed to ``keep``, by thread."""


@dataclass(frozen=True)
class Ending:
    """How a run ended."""

    kept: Kept
    error: Exception | None = None
    """Without its traceback, which would keep every tensor alive."""
    lines: tuple[int, ...] = ()
    """The script's lines on that traceback, innermost first."""
    findings: tuple[Any, ...] = ()
    warnings: tuple[warnings.WarningMessage, ...] = ()

    @property
    def sentence(self) -> str | None:
        """The first sentence of the error; None where there is none."""
        return None if self.error is None else first_sentence(self.error)


def first_sentence(error: Exception) -> str:
    """The first line of what is said, up to torch's general advice.

    Example:
        >>> first_sentence(RuntimeError("It went wrong. Hint: think."))
        'It went wrong.'
    """
    return str(error).partition("\n")[0].partition(" Hint:")[0].rstrip()


def run(
    script: Script,
    context: Callable[[], AbstractContextManager[Any]] = nullcontext,
    replace: Callable[[dict[str, Any]], None] | None = None,
) -> Ending:
    """Execute the script inside of a fresh ``context()``.

    Args:
        script: What to run.
        context: Its ``findings``, if it has any, are part of the ending.
        replace: Given the namespace with the helpers, before the rest runs.
    """
    entered = context()

    def body(execute: Callable[[], None]) -> tuple[Any, ...]:
        with entered:
            execute()
        return ()

    ending = _run(script, body, replace)
    found = tuple(getattr(entered, "findings", ()))
    return Ending(ending.kept, ending.error, ending.lines, found, ending.warnings)


def audited(script: Script) -> Ending:
    """Execute the script in ``unclobber.audit``."""
    import unclobber

    return _run(script, lambda execute: unclobber.audit(execute).findings, None)


def _run(
    script: Script,
    body: Callable[[Callable[[], None]], tuple[Any, ...]],
    replace: Callable[[dict[str, Any]], None] | None,
) -> Ending:
    head, rest = script.code
    script.show()
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(head, namespace)
    if replace is not None:
        replace(namespace)
    error: Exception | None = None
    lines: tuple[int, ...] = ()
    findings: tuple[Any, ...] = ()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            findings = body(lambda: exec(rest, namespace))
        except Exception as raised:
            lines = _lines_of(raised, script.file)
            error = raised.with_traceback(None)
            error.__context__ = error.__cause__ = None
    kept = namespace.get("kept", {})
    namespace.clear()
    return Ending(kept, error, lines, findings, tuple(caught))


def _lines_of(error: Exception, file: str) -> tuple[int, ...]:
    found = []
    # What torch raised itself is told as the context is left, from torch's own error.
    traceback = (error.__cause__ or error).__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            found.append(traceback.tb_lineno)
        traceback = traceback.tb_next
    return tuple(reversed(found))


def lines_here(file: str) -> tuple[int, ...]:
    """The lines of ``file`` that are being executed in this thread, innermost first."""
    found = []
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == file:
            found.append(frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(found)


def variables_here(file: str) -> dict[str, Any]:
    """The variables of the outermost code of ``file`` that is being executed and is no helper."""
    found: dict[str, Any] = {}
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == file and frame.f_code.co_name in ("<module>", *LANES):
            found = frame.f_locals
        frame = frame.f_back  # type: ignore[assignment]
    return found


def same(a: Kept, b: Kept) -> bool:
    """Whether two runs kept the same, to the last bit but for the sign of zero; any NaN is any other."""
    return difference(a, b) is None


def difference(a: Kept, b: Kept, *, tolerance: float = 0.0) -> str | None:
    """Where two runs kept different values first; None if nowhere.

    Args:
        a: One run.
        b: The other.
        tolerance: Part of the largest value by which others may differ.
    """
    if a.keys() != b.keys():
        return f"kept in {sorted(a)} and {sorted(b)}"
    for lane in a:
        if len(a[lane]) != len(b[lane]):
            return f"{lane}: kept {len(a[lane])} times and {len(b[lane])} times"
        for time, (left, right) in enumerate(zip(a[lane], b[lane], strict=True)):
            for n, (x, y) in enumerate(zip(left, right, strict=True)):
                if not _same(x, y, tolerance):
                    return f"{lane}, keep {time}, argument {n}:\n  {x}\n  {y}"
    return None


def begins(part: Kept, whole: Kept) -> bool:
    """Whether ``part`` is what a run had kept that later kept ``whole``."""
    return all(
        lane in whole and same({lane: part[lane]}, {lane: whole[lane][: len(part[lane])]}) for lane in part
    )


def _same(x: Tensor | None, y: Tensor | None, tolerance: float) -> bool:
    if x is None or y is None:
        return x is y
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if torch.equal(x, y):
        return True
    both_nan = x.isnan() & y.isnan()
    if tolerance:
        scale = max(1.0, float(y.abs().nan_to_num(0).max()))
        return bool((((x - y).abs() <= tolerance * scale) | both_nan | (x == y)).all())
    return bool(((x == y) | both_nan).all())
