"""The stages joined inside a running program: ``watch``, ``guard``, ``audit`` and ``freeze``."""

from .contexts import Watching, audit, guard, watch
from .freezing import freeze, frozen
from .program import LoadedFiles
from .session import Session

__all__ = [
    "LoadedFiles", "Session", "Watching", "audit", "freeze", "frozen", "guard", "watch",
]  # fmt: skip
