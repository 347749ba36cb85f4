"""The stages joined inside a running program: ``watch``, ``guard``, ``audit`` and ``freeze``."""

from .contexts import Watching, audit, guard, watch
from .freezing import freeze, frozen
from .program import LoadedFiles, depth, settings_here
from .session import Session, finding_of, put_back

__all__ = [
    "LoadedFiles", "Session", "Watching", "audit", "depth", "finding_of", "freeze", "frozen", "guard",
    "put_back", "settings_here", "watch",
]  # fmt: skip
