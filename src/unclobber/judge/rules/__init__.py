"""One file a code; this table is the order in which they are asked."""

from __future__ import annotations

from collections.abc import Callable

from ...model import Evidence, Finding
from . import uc101, uc101_detached, uc102, uc103, uc105

RULES: tuple[Callable[[Evidence], Finding | None], ...] = (
    uc103.judge,
    uc105.judge,
    uc101_detached.judge,
    uc101.judge,
    uc102.judge,
)
