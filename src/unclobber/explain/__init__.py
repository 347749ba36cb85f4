"""Explanations of conflicts: from the raw facts to a finding, with the program's lines, names and formulas.

``occurrences`` has an entry for each way in which a session learns of a conflict. ``describe`` and
``refused`` build the evidence of one, ``rules`` judge it, and ``boundary`` answers if an internal error
prevents both. ``spelling`` finds the program's words for a tensor, and ``origins`` the
expression that made it. ``reads`` and ``sentence`` help to decide a verdict, so they read no source.
"""

from .ahead import refused_too
from .boundary import bare_finding
from .occurrences import Occurrence, of_conflict, of_frozen, of_refusal, of_unpack
from .reads import is_detached, is_own_result, is_unpacking, never_read
from .sentence import shortest
from .unobserved import notices

__all__ = [
    "Occurrence",
    "bare_finding",
    "is_detached",
    "is_own_result",
    "is_unpacking",
    "never_read",
    "notices",
    "of_conflict",
    "of_frozen",
    "of_refusal",
    "of_unpack",
    "refused_too",
    "shortest",
]
