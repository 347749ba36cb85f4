"""torch's own refusals, distinguished from errors of the program with the same words.

The sentences are in torch/csrc/autograd/variable.cpp, VariableTypeUtils.h, VariableTypeManual.cpp,
saved_variable.cpp, custom_function.cpp, the version counter's header and ATen's MemoryOverlap.
tests/torch_facts/test_refusal_sentences.py checks each. An error counts as torch's only if a call into C
raised it, because Python code may raise the same words.
"""

from __future__ import annotations

import dis
import os
from itertools import dropwhile, takewhile
from types import TracebackType
from typing import NamedTuple

from ..model import CODES, Variant
from ..source import is_own, is_plumbing, starts_program
from ..torch_internals import compat
from . import _targets
from ._live import LiveFrame


class Kind(NamedTuple):
    """A kind of torch's refusals."""

    code: str  # the code that reports it
    subject: str | None = None  # the kind of tensor that torch refuses
    variant: Variant | None = None  # the variant of the code's sentence, if the code has several


_SENTENCES: list[tuple[str, Kind]] = sorted(
    (
        (refusal.sentence, Kind(code, refusal.subject, refusal.variant))
        for code, entry in CODES.items()
        for refusal in entry.refusals
    ),
    key=lambda known: -len(known[0]),
)
"""Longest first, because one sentence may be a part of another."""


def kind_of(error: BaseException) -> Kind | None:
    """Return the kind of torch's refusal; None if the error is another one or Python code raised it."""
    if type(error) is not RuntimeError:
        return None
    text = str(error)
    kind = next((kind for sentence, kind in _SENTENCES if sentence in text), None)
    if kind is None or error.__traceback__ is None:
        return None
    # A compiled function's backward refuses in Python (torch/_functorch/_aot_autograd/runtime_wrappers.py).
    if kind.variant != "donated" and not _came_out_of_c(error.__traceback__):
        return None
    return kind if kind.subject != "unbatched" or _is_about_batch(text, live_frames_of(error)) else None


def _is_about_batch(text: str, live_frames: list[LiveFrame]) -> bool:
    """Return whether ``vmap`` ran, and what was written has no batch; some sentences are about any shapes."""
    if "vmapped over" in text:
        return True
    if not any(live_frame.code.co_filename.endswith(_TRANSFORMS) for live_frame in live_frames):
        return False
    tensor = _targets.find(live_frames).tensor
    return tensor is not None and not compat.tensors.has_batch(tensor)


_TRANSFORMS = tuple(
    os.path.join(os.sep, "_functorch", name) for name in ("eager_transforms.py", "vmap.py", "apis.py")
)
"""The files of ``torch.func``; AOTAutograd's are in that folder, too."""


def live_frames_of(error: BaseException) -> list[LiveFrame]:
    """Return every frame from where the error was raised to the bottom of the stack, innermost first."""
    raised: list[LiveFrame] = []
    trace = error.__traceback__
    outer = None if trace is None else trace.tb_frame.f_back
    while trace is not None:
        raised.append(LiveFrame(trace.tb_frame, trace.tb_lasti))
        trace = trace.tb_next
    # A write that fails below a kernel or a mode of unclobber is the program's write.
    live_frames = list(dropwhile(lambda live_frame: is_plumbing(live_frame.code), reversed(raised)))
    while outer is not None:
        live_frames.append(LiveFrame(outer, outer.f_lasti))
        outer = outer.f_back
    return list(takewhile(lambda live_frame: not starts_program(live_frame.code), live_frames))


def _came_out_of_c(trace: TracebackType) -> bool:  # rather than a `raise` of the program
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    # unclobber raises torch's words as a plain RuntimeError, for a check that torch would have made itself.
    return is_own(code) or dis.opname[code.co_code[trace.tb_lasti]] not in ("RAISE_VARARGS", "RERAISE")
