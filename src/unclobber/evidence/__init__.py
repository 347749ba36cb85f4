"""From the raw facts of a conflict to the evidence that the judge is given.

``save``, ``write`` and ``need`` build the three places of a story, and nothing else does. ``describe`` is
for what was saved and overwritten, ``refused`` for what torch refuses at once. ``ahead`` tells what a refused
backward would have refused next. ``reads`` and ``sentence`` decide a verdict and are asked before any story
is made.
"""

__all__ = [
    "ahead",
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
