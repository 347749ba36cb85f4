"""The stages joined inside a running program: ``watch``, ``guard``, ``audit`` and ``freeze``.

Each name is loaded when it is used, because only `TorchFinder` needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .at_import import TorchFinder
    from .contexts import Watching, audit, guard, watch
    from .freezing import freeze, frozen
    from .session import Session

__all__ = ["Session", "TorchFinder", "Watching", "audit", "freeze", "frozen", "guard", "watch"]

_HOME = {
    "Session": "session",
    "TorchFinder": "at_import",
    **dict.fromkeys(("freeze", "frozen"), "freezing"),
    **dict.fromkeys(("Watching", "audit", "guard", "watch"), "contexts"),
}


def __getattr__(name: str) -> Any:
    """Load a name from its module."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # First, because `unclobber run` begins its session at this import, and no module that it needs may be
    # half loaded then (test_as_without_us.py, test_a_program_that_uses_unclobber_before_torch).
    if name != "TorchFinder":
        import_module("torch")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
