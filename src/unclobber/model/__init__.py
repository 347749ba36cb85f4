"""Facts handed between stages: frozen, picklable, no torch, no logic.

``evidence`` makes them of what ``hooks`` and ``record`` have seen, ``judge`` joins them into findings,
``report`` and ``repair`` read them. Nothing here imports anything else of this package.
"""

from ._about import PACKAGE, VERSION
from ._errors import InplaceError, SilentWriteWarning, UnclobberError
from ._evidence import Evidence, GradientMemory
from ._finding import CODES, Finding, Fix, Severity
from ._need import Need
from ._overwriting import culprit, overwrites, touching
from ._ranks import ProcessEnd, RankEnd
from ._refusal import FreedEvidence, ModuleHook, RefusalEvidence, StaleEvidence
from ._report import Outcome, Report, Totals
from ._save import Save
from ._site import Frame, Site
from ._write import Write
from .faults import asked

__all__ = [
    "CODES",
    "PACKAGE",
    "VERSION",
    "Evidence",
    "Finding",
    "Fix",
    "Frame",
    "FreedEvidence",
    "GradientMemory",
    "InplaceError",
    "ModuleHook",
    "Need",
    "Outcome",
    "ProcessEnd",
    "RankEnd",
    "RefusalEvidence",
    "Report",
    "Save",
    "Severity",
    "SilentWriteWarning",
    "Site",
    "StaleEvidence",
    "Totals",
    "UnclobberError",
    "Write",
    "asked",
    "culprit",
    "overwrites",
    "text",
    "touching",
]
