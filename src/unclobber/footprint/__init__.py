"""Memory of one training step: which line keeps which bytes for backward, why and how long.

A run is recorded whole (every operation, every storage, every save) and interpreted afterwards:
``_recorder`` writes facts down, ``_analysis`` and ``_inplace`` read them, ``_text``, ``_html`` and ``_shown``
show the report.
"""

from ._facts import Change, CurvePoint, InPlaceCandidate, LineTotal, ModuleTotal, Tried
from ._recorder import EnoughError
from ._runs import memory, record_program, record_step
from ._shown import StepMemory

__all__ = [
    "Change", "CurvePoint", "EnoughError", "InPlaceCandidate", "LineTotal", "ModuleTotal", "StepMemory",
    "Tried", "memory", "record_program", "record_step",
]  # fmt: skip
