"""The stages joined inside a running program: ``watch``, ``guard``, ``audit`` and ``freeze``."""

from .contexts import Watching, audit, guard, watch
from .freezing import freeze, frozen
from .program import LoadedFiles, depth, is_watched_by_a_command, settings_here
from .session import Session, finding_of, put_back

__all__ = [
    "LoadedFiles", "Session", "Watching", "audit", "depth", "finding_of", "freeze", "frozen", "guard",
    "is_watched_by_a_command", "put_back", "settings_here", "watch",
]  # fmt: skip
