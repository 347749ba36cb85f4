"""From the raw facts of a conflict to the evidence that the judge is given.

``save``, ``write`` and ``need`` build the three places of a story, and nothing else does. ``describe`` is
for what was saved and overwritten, ``refused`` for what torch refuses at once. ``reads`` and ``sentence``
decide a verdict and are asked before any story is made.
"""

__all__ = [
    "describe",
    "need",
    "notices",
    "reads",
    "refusals",
    "refused",
    "save",
    "sentence",
    "write",
]
