"""The stages joined inside a running program: ``watch``, ``guard``, ``audit`` and ``freeze``.

The package imports nothing, so that its names are loaded at their first use.
"""

__all__ = [
    "contexts",
    "entered",
    "freeze",
    "inside",
    "loaded",
    "session",
]
