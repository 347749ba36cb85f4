"""From the raw facts of a conflict to the evidence that the judge is given.

``describe`` is for what was saved and overwritten, ``refused`` for what torch refuses at once, ``stretch``
for writes that nobody saw. ``reads`` and ``sentence`` decide a verdict and are asked before any story is
made.
"""

__all__ = [
    "describe",
    "notices",
    "reads",
    "refusals",
    "refused",
    "sentence",
    "stretch",
]
