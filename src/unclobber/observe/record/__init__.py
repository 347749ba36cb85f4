"""The ledger: saved tensors, the writes to their memory, and the values that the writes destroyed.

One ``Ledger`` belongs to one session. The hooks feed it, and the session queries it at each unpack;
it decides nothing. Everything in it dies with the graph nodes that autograd frees.
"""

from . import open_memory
from ._fingerprint import Fingerprint, ProgramPoint
from ._queue import PythonQueue, SaveQueue
from ._region import Region, region_of
from ._view_writes import ViewWrites
from ._write_event import KernelName, TracedName, WriteEvent
from .content import differing, each_once
from .fingerprints import Fingerprints
from .ledger import METADATA_ONLY, FingerprintedLedger, Ledger, SaveState
from .saved import RegisteredHooks, SavedTensor, UncheckedSave, leave_to, same_memory
from .saved_bytes import SavedBytes
from .self_overlap import LARGEST_COPY

__all__ = [
    "LARGEST_COPY", "METADATA_ONLY", "Fingerprint", "FingerprintedLedger", "Fingerprints",
    "KernelName", "Ledger", "ProgramPoint", "PythonQueue", "Region", "RegisteredHooks", "SaveQueue",
    "SaveState", "SavedBytes", "SavedTensor", "TracedName", "UncheckedSave", "ViewWrites", "WriteEvent",
    "differing", "each_once", "leave_to", "open_memory", "region_of", "same_memory",
]  # fmt: skip
