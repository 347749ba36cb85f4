"""torch's own refusals, told from errors of the program that only look like them.

The sentences stand in torch/csrc/autograd/variable.cpp, VariableTypeUtils.h, VariableTypeManual.cpp,
saved_variable.cpp, custom_function.cpp, the version counter's header and ATen's MemoryOverlap;
torch_facts checks each.
An error counts as torch's only if it came out of a call into C: Python code that raises the same
words is somebody's own.
"""

from __future__ import annotations

import dis
from enum import Enum
from functools import lru_cache
from types import CodeType, TracebackType

from ..source.origins import Level
from ..source.sites import is_ours, starts_program


class Kind(Enum):
    """What torch refused; the value is the code that tells of it."""

    LEAF = "UC201"
    LEAF_VIEW = "UC202"
    MULTI_VIEW = "UC203"
    NO_GRAD_VIEW = "UC204 no_grad"
    INFERENCE_VIEW = "UC204 inference_mode"
    FUNCTION_VIEW = "UC205"
    INFERENCE_WRITE = "UC206 write"
    INFERENCE_SAVE = "UC206 save"
    INFERENCE_LEAF = "UC206 leaf"
    SELF_OVERLAP = "UC207 self"
    INPUT_OVERLAP = "UC207 input"
    VIEW_DETACHED = "UC208"
    FREED = "UC301"
    VERSION = "UC101"

    @property
    def code(self) -> str:
        return self.value.partition(" ")[0]


_SENTENCES: tuple[tuple[str, Kind], ...] = (
    # several views at once comes first: torch adds it to the sentence about no_grad
    ("This view is the output of a function that returns multiple views", Kind.MULTI_VIEW),
    ("This view was created inside a custom Function", Kind.FUNCTION_VIEW),
    ("created in no_grad mode and", Kind.NO_GRAD_VIEW),
    ("created in inference mode and", Kind.INFERENCE_VIEW),
    ("a view of a leaf Variable that requires grad is being used in an in-place operation", Kind.LEAF_VIEW),
    ("a leaf Variable that requires grad is being used in an in-place operation", Kind.LEAF),
    ("a leaf Variable that requires grad has been used in an in-place operation", Kind.LEAF),
    ("Inplace update to inference tensor outside InferenceMode", Kind.INFERENCE_WRITE),
    ("Inference tensors cannot be saved for backward", Kind.INFERENCE_SAVE),
    ("Setting requires_grad=True on inference tensor outside InferenceMode", Kind.INFERENCE_LEAF),
    ("more than one element of the written-to tensor refers to a single memory location", Kind.SELF_OVERLAP),
    ("some elements of the input tensor and the written-to tensor refer to a single", Kind.INPUT_OVERLAP),
    ("Can't detach views in-place", Kind.VIEW_DETACHED),
    ("Trying to backward through the graph a second time", Kind.FREED),
    (
        "one of the variables needed for gradient computation has been modified by an inplace operation",
        Kind.VERSION,
    ),
)


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
