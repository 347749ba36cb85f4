"""torch's own refusals, told from errors of the program that only look like them.

The sentences stand in torch/csrc/autograd/variable.cpp, VariableTypeUtils.h, VariableTypeManual.cpp,
saved_variable.cpp, custom_function.cpp, the version counter's header and ATen's MemoryOverlap;
torch_facts checks each.
An error counts as torch's only if it came out of a call into C: Python code that raises the same
words is somebody's own.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from types import CodeType, TracebackType
from typing import NamedTuple

from ..model import CODES, Subject, Variant
from ..source.places import Level
from ..source.sites import is_ours, starts_program


class Kind(NamedTuple):
    """What torch refused."""

    code: str
    """The code that tells of it."""
    subject: Subject | None = None
    """What kind of tensor torch speaks of."""
    variant: Variant | None = None
    """Which of the code's sentences it is, where it has several."""


_SENTENCES: list[tuple[str, Kind]] = sorted(
    (
        (refusal.sentence, Kind(code, refusal.subject, refusal.variant))
        for code, entry in CODES.items()
        for refusal in entry.refusals
    ),
    key=lambda known: -len(known[0]),
)
"""The longest first: one may be a part of another."""


def kind_of(error: BaseException) -> Kind | None:
    """What torch refused, None where the error is another one or was raised by Python code."""
    if type(error) is not RuntimeError:
        return None
    text = str(error)
    kind = next((kind for sentence, kind in _SENTENCES if sentence in text), None)
    if kind is None or error.__traceback__ is None or not _came_out_of_c(error.__traceback__):
        return None
    return kind


def levels_of(error: BaseException) -> list[Level]:
    """Every frame from where the error was raised to the bottom of the stack, innermost first."""
    raised: list[Level] = []
    trace = error.__traceback__
    outer = None if trace is None else trace.tb_frame.f_back
    while trace is not None:
        raised.append(Level(trace.tb_frame, trace.tb_lasti))
        trace = trace.tb_next
    levels = raised[::-1]
    # a write that fails below our own kernel is the program's write
    while levels and is_ours(levels[0].frame.f_code):
        del levels[0]
    while outer is not None:
        levels.append(Level(outer, outer.f_lasti))
        outer = outer.f_back
    start = next((i for i, level in enumerate(levels) if starts_program(level.frame.f_code)), None)
    return levels[:start]


def _came_out_of_c(trace: TracebackType) -> bool:
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    # what we raise as a plain RuntimeError are torch's words, for what torch would have looked at
    return is_ours(code) or trace.tb_lasti not in _raises(code)


@lru_cache(maxsize=64)
def _raises(code: CodeType) -> frozenset[int]:
    """Offsets of the instructions that raise by themselves."""
    return frozenset(
        one.offset for one in dis.get_instructions(code) if one.opname in ("RAISE_VARARGS", "RERAISE")
    )
