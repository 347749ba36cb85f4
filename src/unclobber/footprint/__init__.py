"""Memory of one training step: which line keeps which bytes for backward, why and how long.

A run is recorded whole (every operation, every storage, every save) and interpreted afterwards:
``recorder`` writes facts down, ``_analysis`` and ``_inplace`` read them, ``text``, ``json`` and
``html`` show the report.
"""

from ._facts import (
    Change,
    CurvePoint,
    GradientLife,
    InPlaceCandidate,
    InPlaceUse,
    KeptStorage,
    LineTotal,
    LiveBytes,
    MemoryReport,
    ModuleTotal,
    Peak,
    Tried,
)
from .runs import memory, record_step
from .shown import StepMemory

__all__ = [
    "Change",
    "CurvePoint",
    "GradientLife",
    "InPlaceCandidate",
    "InPlaceUse",
    "KeptStorage",
    "LineTotal",
    "LiveBytes",
    "MemoryReport",
    "ModuleTotal",
    "Peak",
    "StepMemory",
    "Tried",
    "html",
    "json",
    "memory",
    "record_step",
    "recorder",
    "runs",
    "text",
]
