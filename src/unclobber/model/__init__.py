"""Facts handed between stages: frozen, picklable, no torch, no logic.

``observe`` and ``ledger`` produce them, ``judge`` joins them into findings, ``report`` and
``repair`` read them. Nothing here imports anything else of this package.
"""

from ._evidence import Evidence, GradientMemory
from ._finding import CODES, Finding, Fix, Severity
from ._need import Need
from ._ranks import ProcessEnd, RankEnd
from ._refusal import FreedEvidence, ModuleHook, RefusalEvidence, StaleEvidence
from ._report import Outcome, Report, Totals
from ._save import Save
from ._site import Frame, Site
from ._write import Reached, Write

__all__ = [
    "CODES",
    "Evidence",
    "Finding",
    "Fix",
    "Frame",
    "FreedEvidence",
    "GradientMemory",
    "ModuleHook",
    "Need",
    "Outcome",
    "ProcessEnd",
    "RankEnd",
    "Reached",
    "RefusalEvidence",
    "Report",
    "Save",
    "Severity",
    "Site",
    "StaleEvidence",
    "Totals",
    "Write",
]
