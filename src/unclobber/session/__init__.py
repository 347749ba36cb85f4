"""The stages joined inside a running program: ``watch``, ``guard``, ``audit`` and ``freeze``.

``story_boundary`` is the boundary behind which every explanation is built: an internal error there costs the
explanation, never the gradient. The package imports nothing, because the command line needs that module
without torch.
"""

__all__ = [
    "contexts",
    "entered",
    "freeze",
    "inside",
    "loaded",
    "session",
    "story_boundary",
]
