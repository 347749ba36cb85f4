"""Facts passed between stages: frozen, picklable, no torch.

``explain`` makes findings, ``report`` and ``repair`` read them. ``codes`` is the table of each code's texts,
and ``pages`` holds its documentation. Nothing here imports other rooms of this package.
"""

from ._about import PACKAGE, VERSION
from ._cached import write_cached
from ._cells import cell_name, shown_name
from ._errors import InplaceError, SilentWriteWarning, UnclobberError
from ._finding import Confidence, Edit, Finding, Fix, SpanEdit
from ._report import CheckedSources, Outcome, ProcessEnd, RankEnd, Report, Suppressed, SuppressedBy, Totals
from ._save import Save
from ._site import Extent, Frame, Need, Site
from ._torch import require_installed_torch
from ._write import PastCounter, Reached, Write
from .codes import CODES, Code, Interpretation, Variant
from .faults import internal_error_in, or_default
from .helps import Help

__all__ = [
    "CODES", "PACKAGE", "VERSION", "CheckedSources", "Code", "Confidence", "Edit", "Extent", "Finding",
    "Fix", "Frame", "Help", "InplaceError", "Interpretation", "Need", "Outcome", "PastCounter",
    "ProcessEnd", "RankEnd", "Reached", "Report", "Save", "SilentWriteWarning", "Site",
    "SpanEdit", "Suppressed", "SuppressedBy", "Totals", "UnclobberError", "Variant",
    "Write", "cell_name", "internal_error_in", "or_default", "pages",
    "require_installed_torch", "shown_name", "text", "write_cached",
]  # fmt: skip
