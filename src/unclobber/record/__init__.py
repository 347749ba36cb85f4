"""What was saved, what was written over it, and what was there before.

One ``Ledger`` belongs to one session. It is fed by ``hooks`` and asked by the session at each
need; it decides nothing. Everything in it dies with the graph nodes that autograd frees.
"""

from ._fingerprint import Fingerprint, ProgramPoint
from ._queue import PythonQueue, SaveQueue
from ._region import Region, overlap, region_of
from ._view_writes import ViewWrites
from ._write_event import WriteEvent
from .content import differing, each_once, same_bits
from .fingerprints import Fingerprints
from .ledger import METADATA_ONLY, FingerprintedLedger, Ledger, Standing
from .saved import History, RegisteredHooks, SavedTensor, UncheckedSave, leave_to, life_of, same_memory
from .saved_bytes import SavedBytes
from .selection import select
from .self_overlap import LARGEST_COPY

__all__ = [
    "LARGEST_COPY",
    "METADATA_ONLY",
    "Fingerprint",
    "FingerprintedLedger",
    "Fingerprints",
    "History",
    "Ledger",
    "ProgramPoint",
    "PythonQueue",
    "Region",
    "RegisteredHooks",
    "SaveQueue",
    "SavedBytes",
    "SavedTensor",
    "Standing",
    "UncheckedSave",
    "ViewWrites",
    "WriteEvent",
    "differing",
    "each_once",
    "leave_to",
    "life_of",
    "overlap",
    "region_of",
    "same_bits",
    "same_memory",
    "select",
]
