"""Facts passed between stages: frozen, picklable, no torch, no logic.

``evidence`` and ``session`` produce them, ``judge`` joins them into findings, ``report`` and ``repair`` read
them. ``codes`` is the table of each code's texts. Nothing here imports other rooms of this package.
"""

from ._about import PACKAGE, VERSION
from ._cells import cell_name, shown_name
from ._errors import InplaceError, SilentWriteWarning, UnclobberError
from ._evidence import Evidence, GradientMemory
from ._finding import Confidence, Edit, Finding, Fix, SpanEdit
from ._need import Need
from ._overwriting import culprit, overwrites, touching, written_at
from ._ranks import ProcessEnd, RankEnd
from ._refusal import FreedEvidence, ModuleHook, RefusalEvidence, StaleEvidence
from ._report import CheckedSources, Outcome, Report, Totals
from ._save import Save
from ._site import Extent, Frame, Site
from ._suppressed import Suppressed, SuppressedBy
from ._torch import require_installed_torch
from ._write import PastCounter, Reached, Write
from .codes import CODES, Code, Interpretation, Severity, Stage, Subject, Variant
from .faults import or_default

__all__ = [
    "CODES",
    "PACKAGE",
    "VERSION",
    "CheckedSources",
    "Code",
    "Confidence",
    "Edit",
    "Evidence",
    "Extent",
    "Finding",
    "Fix",
    "Frame",
    "FreedEvidence",
    "GradientMemory",
    "InplaceError",
    "Interpretation",
    "ModuleHook",
    "Need",
    "Outcome",
    "PastCounter",
    "ProcessEnd",
    "RankEnd",
    "Reached",
    "RefusalEvidence",
    "Report",
    "Save",
    "Severity",
    "SilentWriteWarning",
    "Site",
    "SpanEdit",
    "Stage",
    "StaleEvidence",
    "Subject",
    "Suppressed",
    "SuppressedBy",
    "Totals",
    "UnclobberError",
    "Variant",
    "Write",
    "cell_name",
    "culprit",
    "or_default",
    "overwrites",
    "require_installed_torch",
    "shown_name",
    "text",
    "touching",
    "written_at",
]
