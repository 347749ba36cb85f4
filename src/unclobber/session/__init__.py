"""The stages joined inside a running program: ``watch``, ``guard``, ``audit`` and ``freeze``."""

from .contexts import Watching, audit, guard, watch
from .freezing import freeze, frozen
from .program import LoadedFiles, is_watched_by_a_command, settings_here
from .session import Session

__all__ = [
    "LoadedFiles", "Session", "Watching", "audit", "freeze", "frozen", "guard",
    "is_watched_by_a_command", "settings_here", "watch",
]  # fmt: skip
