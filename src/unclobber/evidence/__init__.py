"""Evidence for the judge, built from the raw facts of a conflict.

``save``, ``write`` and ``need`` are the only builders of a finding's three places. ``describe`` builds the
evidence for a tensor that was saved and overwritten, ``refused`` for an operation that torch refuses at once.
``ahead`` lists the saves that a refused backward would have refused next. ``reads`` and ``sentence`` help to
decide a verdict, so they run before any evidence is built.
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
