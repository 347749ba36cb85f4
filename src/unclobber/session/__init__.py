"""The stages joined inside a running program: ``watch``, ``guard``, ``audit`` and ``freeze``.

``telling`` is the boundary behind which everything that is told is made: a fault there costs the story, never
the gradient. Nothing is imported with the package, because the command line needs ``telling`` without torch.
"""

__all__ = [
    "contexts",
    "entered",
    "freeze",
    "inside",
    "loaded",
    "session",
    "telling",
]
