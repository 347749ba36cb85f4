"""What was saved, what was written over it, and what was there before.

One ``Ledger`` belongs to one session. It is fed by ``observe`` and asked by the session at each
need; it decides nothing. Everything in it dies with the graph nodes that autograd frees.
"""

from ._fingerprints import Fingerprint, Fingerprints, Place
from ._ledger import Ledger, Standing
from ._region import Region, overlap, region_of
from ._saved import SavedTensor, same_memory
from ._saved_bytes import SavedBytes
from ._writes import WriteEvent

__all__ = [
    "Fingerprint",
    "Fingerprints",
    "Ledger",
    "Place",
    "Region",
    "SavedBytes",
    "SavedTensor",
    "Standing",
    "WriteEvent",
    "overlap",
    "region_of",
    "same_memory",
]
